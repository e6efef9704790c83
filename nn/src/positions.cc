#include "heed/nn/positions.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include "heed/error.h"
#include "heed/nn/rotary.h"
#include "kept_tables.h"
#include "rotary_call.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

constexpr std::pair<PositionScheme, const char*> kSchemeNames[] = {
    {PositionScheme::kNone, "none"},       {PositionScheme::kSinusoidal, "sinusoidal"},
    {PositionScheme::kLearned, "learned"}, {PositionScheme::kRotary, "rotary"},
    {PositionScheme::kAlibi, "alibi"},     {PositionScheme::kRelativeBias, "relative"},
    {PositionScheme::kT5, "t5"},           {PositionScheme::kShaw, "shaw"},
};

template <class... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw InvalidArgument(text.str());
}

void CheckOperand(const char* name, const at::Tensor& tensor, int64_t head_dim) {
  if (!tensor.defined()) Refuse("Rotary: ", name, ": expected a tensor, got an undefined one");
  if (tensor.dim() != 4 || tensor.size(3) != head_dim) {
    Refuse("Rotary: ", name, ": expected shape [batch, heads, steps, ", head_dim, "], got ", tensor.sizes());
  }
}

// Positions of the tokens of a tensor [B, H, N, D].
void CheckPositions(const char* name, const TokenPositions& positions, const at::Tensor& tensor) {
  const auto* list = std::get_if<at::Tensor>(&positions);
  if (list == nullptr) return;
  const int64_t batch = tensor.size(0), steps = tensor.size(2);
  if (!list->defined())
    Refuse("Rotary: ", name, ": expected the position of the first token or a tensor, got an undefined one");
  const bool row = list->dim() == 1 || (list->dim() == 2 && (list->size(0) == 1 || list->size(0) == batch));
  if (!row || list->size(-1) != steps) {
    Refuse("Rotary: ", name, ": expected shape [", steps, "] or [", batch, ", ", steps, "], got ", list->sizes());
  }
  if (list->requires_grad()) Refuse("Rotary: ", name, ": expected positions that require no gradient");
}

bool AreSame(const TokenPositions& a, const TokenPositions& b) {
  if (a.index() != b.index()) return false;
  if (const auto* first = std::get_if<int64_t>(&a)) return *first == std::get<int64_t>(b);
  return std::get<at::Tensor>(a).is_same(std::get<at::Tensor>(b));
}

// The last position of a text with these tokens; -1 where there are none.
int64_t LastOf(const TokenPositions& positions, int64_t steps) {
  if (const auto* first = std::get_if<int64_t>(&positions)) return steps > 0 ? *first + steps - 1 : -1;
  return LengthOf(std::get<at::Tensor>(positions)) - 1;
}

bool IsNarrow(at::ScalarType type) { return at::isFloatingType(type) && c10::elementSize(type) < sizeof(float); }

}  // namespace

at::Tensor AttentionPosition::rotate_query(const at::Tensor&, const TokenPositions&) const {
  throw InvalidArgument("position: this scheme does not turn queries by themselves");
}

at::Tensor AttentionPosition::rotate_key(const at::Tensor&, const TokenPositions&) const {
  throw InvalidArgument("position: this scheme does not turn keys by themselves");
}

AlibiImpl::AlibiImpl(int64_t heads, bool symmetric, bool trainable)
    : heads_(heads), symmetric_(symmetric), trainable_(trainable) {
  reset();
}

void AlibiImpl::reset() {
  slopes = at::tensor(AlibiSlopes(heads_), at::kFloat);
  if (trainable_) slopes = register_parameter("slopes", slopes);
}

void AlibiImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  Module::to(device, IsNarrow(dtype) ? slopes.scalar_type() : dtype, non_blocking);
}

void AlibiImpl::to(torch::Dtype dtype, bool non_blocking) {
  if (!IsNarrow(dtype)) Module::to(dtype, non_blocking);
}

AttentionTensors AlibiImpl::tensors() const {
  AttentionTensors tensors;
  tensors.slopes = slopes;
  return tensors;
}

RelativeBiasImpl::RelativeBiasImpl(int64_t heads, int64_t max_distance) : heads_(heads), max_distance_(max_distance) {
  if (heads < 1 || max_distance < 0) {
    Refuse("RelativeBias: expected heads > 0 and max_distance >= 0, got ", heads, " and ", max_distance);
  }
  reset();
}

void RelativeBiasImpl::reset() {
  relative_bias = register_parameter("relative_bias", at::zeros({heads_, 2 * max_distance_ + 1}));
}

AttentionTensors RelativeBiasImpl::tensors() const {
  AttentionTensors tensors;
  tensors.relative_bias = relative_bias;
  return tensors;
}

T5BiasImpl::T5BiasImpl(int64_t heads, T5Options options) : heads_(heads), options_(options) {
  if (heads < 1) Refuse("T5Bias: heads: expected at least 1, got ", heads);
  reset();
}

void T5BiasImpl::reset() {
  T5Thresholds(options_);  // throws before a table of nonsensical size is made
  // Beyond max_distance all offsets share a bucket, as a table clipped there has them.
  const int64_t offsets = 2 * options_.max_distance + 1;
  bucket_of_offset_ = at::empty({offsets}, at::kLong);
  T5Buckets(options_, options_.max_distance, ViewOf<int64_t, 1>(bucket_of_offset_));
  weight = register_parameter("weight", at::zeros({options_.buckets, heads_}));
}

at::Tensor T5BiasImpl::table() const { return weight.t().index_select(1, bucket_of_offset_); }

AttentionTensors T5BiasImpl::tensors() const {
  AttentionTensors tensors;
  tensors.relative_bias = table();
  return tensors;
}

ShawImpl::ShawImpl(int64_t head_dim, int64_t max_distance, bool with_values, bool with_queries, int64_t value_dim)
    : head_dim_(head_dim),
      max_distance_(max_distance),
      value_dim_(value_dim == 0 ? head_dim : value_dim),
      with_values_(with_values),
      with_queries_(with_queries) {
  if (head_dim < 1 || max_distance < 0 || value_dim < 0) {
    Refuse("Shaw: expected head_dim > 0, max_distance >= 0 and value_dim >= 0, got ", head_dim, ", ", max_distance, " and ",
           value_dim);
  }
  reset();
}

void ShawImpl::reset() {
  const auto vectors = [this](const char* name, int64_t width) {
    at::Tensor rows = register_parameter(name, at::empty({2 * max_distance_ + 1, width}));
    return torch::nn::init::normal_(rows, 0.0, 1.0 / std::sqrt(static_cast<double>(head_dim_)));
  };
  keys = vectors("keys", head_dim_);
  if (with_values_) values = vectors("values", value_dim_);
  if (with_queries_) queries = vectors("queries", head_dim_);
}

AttentionTensors ShawImpl::tensors() const {
  AttentionTensors tensors;
  tensors.content_keys = keys;
  tensors.content_values = values;
  tensors.content_queries = queries;
  return tensors;
}

RotaryImpl::RotaryImpl(int64_t head_dim, RotaryOptions options, RotaryLayout layout)
    : head_dim_(head_dim), options_(std::move(options)), layout_(layout), kept_(std::make_shared<KeptTables>()) {
  int64_t& columns = options_.rotary_dim;
  if (columns == 0) columns = head_dim;
  if (columns < 2 || columns % 2 != 0 || columns > head_dim) {
    Refuse("Rotary: rotary_dim: expected an even number in 2..", head_dim, " (the width of a head), got ", columns);
  }
  const RotaryFrequencies frequencies = ComputeRotaryFrequencies(options_);
  if (!DependsOnLength(options_.scaling)) fixed_ = frequencies;
}

RotaryTables RotaryImpl::Tables(const at::Tensor& x, const TokenPositions& positions, std::optional<int64_t> last) const {
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto make = [&](const at::Tensor& list) {
    return rotary_tables(fixed_ ? *fixed_ : ComputeRotaryFrequencies(options_, std::max<int64_t>(0, *last + 1)), list, type);
  };
  if (const auto* first = std::get_if<int64_t>(&positions)) return kept_->Rows(make, *first, x.size(2), last, type);
  return make(std::get<at::Tensor>(positions));
}

at::Tensor RotaryImpl::Turned(const at::Tensor& x, const RotaryTables& tables) const {
  return apply_rotary(x, tables.cos, tables.sin, {layout_, /*inverse=*/false});
}

std::pair<at::Tensor, at::Tensor> RotaryImpl::rotate(const at::Tensor& query, const at::Tensor& key,
                                                     const TokenPositions& query_positions,
                                                     const TokenPositions& key_positions) const {
  CheckOperand("query", query, head_dim_);
  CheckOperand("key", key, head_dim_);
  CheckPositions("query_positions", query_positions, query);
  CheckPositions("key_positions", key_positions, key);
  std::optional<int64_t> last;
  if (!fixed_) last = std::max(LastOf(query_positions, query.size(2)), LastOf(key_positions, key.size(2)));
  const RotaryTables turn_queries = Tables(query, query_positions, last);
  const bool shared =
      AreSame(query_positions, key_positions) && query.size(2) == key.size(2) && query.scalar_type() == key.scalar_type();
  return {Turned(query, turn_queries), Turned(key, shared ? turn_queries : Tables(key, key_positions, last))};
}

at::Tensor RotaryImpl::rotate_query(const at::Tensor& query, const TokenPositions& positions) const {
  if (!fixed_) return AttentionPosition::rotate_query(query, positions);
  CheckOperand("query", query, head_dim_);
  CheckPositions("query_positions", positions, query);
  return Turned(query, Tables(query, positions, std::nullopt));
}

at::Tensor RotaryImpl::rotate_key(const at::Tensor& key, const TokenPositions& positions) const {
  if (!fixed_) return AttentionPosition::rotate_key(key, positions);
  CheckOperand("key", key, head_dim_);
  CheckPositions("key_positions", positions, key);
  return Turned(key, Tables(key, positions, std::nullopt));
}

std::vector<std::string> PositionSchemeNames() {
  std::vector<std::string> names;
  for (const auto& entry : kSchemeNames) names.emplace_back(entry.second);
  return names;
}

PositionScheme ParsePositionScheme(const std::string& name) {
  std::string names;
  for (const auto& [scheme, scheme_name] : kSchemeNames) {
    if (name == scheme_name) return scheme;
    names += std::string(names.empty() ? "" : ", ") + scheme_name;
  }
  Refuse("position: '", name, "' is unknown; expected one of ", names);
}

std::string ToString(PositionScheme scheme) {
  for (const auto& [known, name] : kSchemeNames) {
    if (known == scheme) return name;
  }
  Refuse("position: not a scheme: ", static_cast<int>(scheme));
}

bool AddsToInput(PositionScheme scheme) { return scheme == PositionScheme::kSinusoidal || scheme == PositionScheme::kLearned; }

std::shared_ptr<AttentionPosition> MakeAttentionPosition(const PositionOptions& options, int64_t heads, int64_t head_dim,
                                                         bool causal) {
  switch (options.scheme) {
    case PositionScheme::kNone:
      return nullptr;
    case PositionScheme::kRotary:
      return Rotary(head_dim, options.rotary, options.rotary_layout).ptr();
    case PositionScheme::kAlibi:
      return Alibi(heads).ptr();
    case PositionScheme::kRelativeBias:
      return RelativeBias(heads, options.max_distance).ptr();
    case PositionScheme::kT5:
      return T5Bias(heads, T5Options{options.buckets, options.max_distance, /*bidirectional=*/!causal}).ptr();
    case PositionScheme::kShaw:
      return Shaw(head_dim, options.max_distance).ptr();
    case PositionScheme::kSinusoidal:
    case PositionScheme::kLearned:
      break;
  }
  Refuse("position: '", ToString(options.scheme),
         "' is added to the input, not inside attention; apply PositionalEncoding or LearnedPositions before");
}

}  // namespace heed::nn
