#include "heed/nn/multi_head_attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "heed/error.h"
#include "linear.h"
#include "refuse.h"
#include "residual_layers.h"
#include "sequence.h"

namespace heed::nn {
namespace {

void CheckOptions(const MultiHeadAttentionOptions& options) {
  const int64_t width = options.num_hiddens(), heads = options.num_heads(), kv_heads = options.kv_heads();
  if (options.head_dim() < 0) {
    Refuse("MultiHeadAttention: head_dim must be positive, or 0 for num_hiddens / num_heads, got ", options.head_dim());
  }
  if (width < 1 || heads < 1 || (options.head_dim() == 0 && width % heads != 0)) {
    Refuse("MultiHeadAttention: num_hiddens (", width, ") must be a positive multiple of num_heads (", heads,
           "), or head_dim be given for heads of another width");
  }
  if (kv_heads < 1 || heads % kv_heads != 0) {
    Refuse("MultiHeadAttention: num_heads (", heads, ") must be a multiple of kv_heads (", kv_heads, ")");
  }
  if (options.query_size() < 1 || options.key_size() < 1 || options.value_size() < 1) {
    throw InvalidArgument("MultiHeadAttention: query_size, key_size and value_size must be positive");
  }
  CheckDropout("MultiHeadAttention", options.dropout());
  const Window& window = options.window();
  if (window.left < -1 || window.right < -1) {
    Refuse("MultiHeadAttention: window: expected bounds of at least 0, or -1 for none, got left ", window.left, ", right ",
           window.right);
  }
  if (options.softcap() && !(*options.softcap() > 0.0 && std::isfinite(*options.softcap()))) {
    Refuse("MultiHeadAttention: softcap: expected a finite number above 0, got ", *options.softcap());
  }
  if (options.scale() && !std::isfinite(*options.scale())) {
    throw InvalidArgument("MultiHeadAttention: scale: expected a finite number");
  }
}

// The scheme of a new module.
std::shared_ptr<AttentionPosition> PositionFor(const MultiHeadAttentionOptions& options) {
  if (options.position_module()) return options.position_module();
  return MakeAttentionPosition(options.position(), options.num_heads(), options.head_dim(), options.causal() != Causal::kNone);
}

std::shared_ptr<torch::nn::Module> AsModule(const std::shared_ptr<AttentionPosition>& scheme) {
  auto module = std::dynamic_pointer_cast<torch::nn::Module>(scheme);
  if (!module) throw InvalidArgument("MultiHeadAttention: position: expected a scheme that is a torch::nn::Module");
  return module;
}

constexpr const char* kCacheOfOne = "a cache holds the keys of one process";

// Self-attention's three projections are one product where that pays for a joint copy of the matrices: in training, whose
// gradients of them are then one product too, in layers that are not wide (bench/python/joint_projection.py).
constexpr int64_t kJointRows = 64, kJointWidth = 256;

bool Joint(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values) {
  return at::GradMode::is_enabled() && queries.is_same(keys) && keys.is_same(values) && queries.dim() == 3 &&
         queries.size(2) <= kJointWidth && queries.size(0) * queries.size(1) >= kJointRows;
}

// A scheme with the tables that a cache keeps of it, for keys that it has turned already where it turns once.
class SchemeOfCache : public AttentionPosition {
 public:
  SchemeOfCache(std::shared_ptr<const AttentionPosition> scheme, const KeyValueCache& cache)
      : scheme_(std::move(scheme)), tensors_(cache.TensorsOf(*scheme_)), turned_(cache.turned_by() != nullptr) {}
  AttentionTensors tensors() const override { return tensors_; }
  bool symmetric() const override { return scheme_->symmetric(); }
  std::optional<PositionProgram> program() const override { return scheme_->program(); }
  std::optional<double> default_scale(int64_t head_dim) const override { return scheme_->default_scale(head_dim); }
  int64_t axes() const override { return scheme_->axes(); }
  bool places() const override { return scheme_->places(); }
  TokenPositions place(const TokenPositions& positions, int64_t steps) const override {
    return scheme_->place(positions, steps);
  }
  bool rotates() const override { return scheme_->rotates(); }
  std::pair<at::Tensor, at::Tensor> rotate(const at::Tensor& query, const at::Tensor& key,
                                           const TokenPositions& query_positions,
                                           const TokenPositions& key_positions) const override {
    if (!turned_) return scheme_->rotate(query, key, query_positions, key_positions);
    return {scheme_->rotate_query(query, query_positions), key};
  }

 private:
  std::shared_ptr<const AttentionPosition> scheme_;
  AttentionTensors tensors_;
  bool turned_;
};

// Which dimension of a list of positions counts steps.
int64_t StepsOf(const at::Tensor& positions) { return positions.dim() == 1 ? 0 : 1; }

// Turned keys stand where they were turned: `held`, or 0, 1, ... where that is undefined.
void CheckSame(const at::Tensor& given, const at::Tensor& held, int64_t length) {
  if (!given.defined()) return;
  const at::Tensor own = held.defined() ? held : at::arange(length, at::kLong).unsqueeze(0);
  const bool fits = given.dim() > 0 && given.size(StepsOf(given)) == length && (given.dim() == 3) == (own.dim() == 3);
  if (!fits || !at::eq(own, given).all().item<bool>()) {
    throw InvalidArgument("MultiHeadAttention: key positions: expected those that the cached keys were turned by");
  }
}

// Before a cache is changed; without one, attention itself checks.
void CheckBatch(const at::Tensor& query, const at::Tensor& key) {
  if (query.size(0) != key.size(0)) {
    Refuse("MultiHeadAttention: keys: expected a batch of ", query.size(0), " as queries have, got ", key.size(0));
  }
}

}  // namespace

MultiHeadAttentionImpl::MultiHeadAttentionImpl(MultiHeadAttentionOptions options_) : options(std::move(options_)) {
  for (int64_t* size : {&options.query_size(), &options.key_size(), &options.value_size()}) {
    if (*size == 0) *size = options.num_hiddens();
  }
  if (options.kv_heads() == 0) options.kv_heads(options.num_heads());
  CheckOptions(options);
  if (options.head_dim() == 0) options.head_dim(options.num_hiddens() / options.num_heads());
  reset();
}

MultiHeadAttentionImpl::MultiHeadAttentionImpl(int64_t num_hiddens, int64_t num_heads, double dropout, bool bias)
    : MultiHeadAttentionImpl(MultiHeadAttentionOptions(num_hiddens, num_heads).dropout(dropout).bias(bias)) {}

MultiHeadAttentionImpl::MultiHeadAttentionImpl(int64_t key_size, int64_t query_size, int64_t value_size, int64_t num_hiddens,
                                               int64_t num_heads, double dropout, bool bias)
    : MultiHeadAttentionImpl(MultiHeadAttentionOptions(num_hiddens, num_heads)
                                 .dropout(dropout)
                                 .bias(bias)
                                 .key_size(key_size)
                                 .query_size(query_size)
                                 .value_size(value_size)) {}

void MultiHeadAttentionImpl::reset() {
  const int64_t width = options.head_dim() * options.num_heads(), kv_width = options.head_dim() * options.kv_heads();
  const auto linear = [this](const char* name, int64_t in, int64_t out) {
    return register_module(name, torch::nn::Linear(torch::nn::LinearOptions(in, out).bias(options.bias())));
  };
  W_q = linear("W_q", options.query_size(), width);
  W_k = linear("W_k", options.key_size(), kv_width);
  W_v = linear("W_v", options.value_size(), kv_width);
  W_o = linear("W_o", width, options.num_hiddens());
  if (options.query_key_norm() != QueryKeyNormKind::kNone) {
    query_key_norm =
        register_module("query_key_norm", QueryKeyNorm(options.query_key_norm(), options.num_heads(), options.head_dim()));
  }
  // A copy that clone() makes still points to the original's scheme and gets one of its own, or that of the modules which
  // share it.
  position =
      position ? std::dynamic_pointer_cast<AttentionPosition>(CloneScope::Copy(AsModule(position))) : PositionFor(options);
  if (position) register_module("position", AsModule(position));
}

// What a projection gives, [batch, steps, heads * head_dim], by head and with its norm.
torch::Tensor MultiHeadAttentionImpl::Normed(const torch::Tensor& projected, bool queries) {
  at::Tensor X = SplitHeads(projected, queries ? options.num_heads() : options.kv_heads());
  if (!query_key_norm) return X;
  return queries ? query_key_norm->norm_query(X) : query_key_norm->norm_key(X);
}

torch::Tensor MultiHeadAttentionImpl::ProjectedQueries(const torch::Tensor& queries) {
  CheckInput("MultiHeadAttention", queries, options.query_size(), "queries");
  return Normed(linear(queries, W_q->weight, W_q->bias), /*queries=*/true);
}

std::pair<torch::Tensor, torch::Tensor> MultiHeadAttentionImpl::ProjectedKeysAndValues(const torch::Tensor& keys,
                                                                                       const torch::Tensor& values) {
  CheckInput("MultiHeadAttention", keys, options.key_size(), "keys");
  CheckInput("MultiHeadAttention", values, options.value_size(), "values");
  return {Normed(linear(keys, W_k->weight, W_k->bias), /*queries=*/false),
          SplitHeads(linear(values, W_v->weight, W_v->bias), options.kv_heads())};
}

std::array<torch::Tensor, 3> MultiHeadAttentionImpl::Projected(const torch::Tensor& queries, const torch::Tensor& keys,
                                                               const torch::Tensor& values) {
  if (!Joint(queries, keys, values)) {
    const auto [key, value] = ProjectedKeysAndValues(keys, values);
    return {ProjectedQueries(queries), key, value};
  }
  CheckInput("MultiHeadAttention", queries, options.query_size(), "queries");
  CheckInput("MultiHeadAttention", keys, options.key_size(), "keys");
  CheckInput("MultiHeadAttention", values, options.value_size(), "values");
  const at::Tensor weight = at::cat({W_q->weight, W_k->weight, W_v->weight});
  const at::Tensor bias = options.bias() ? at::cat({W_q->bias, W_k->bias, W_v->bias}) : at::Tensor();
  const std::vector<at::Tensor> parts =
      linear(queries, weight, bias).split_with_sizes({W_q->weight.size(0), W_k->weight.size(0), W_v->weight.size(0)}, -1);
  return {Normed(parts[0], /*queries=*/true), Normed(parts[1], /*queries=*/false), SplitHeads(parts[2], options.kv_heads())};
}

torch::Tensor MultiHeadAttentionImpl::Output(const torch::Tensor& query, const torch::Tensor& key, const torch::Tensor& value,
                                             const torch::Tensor& lengths, const StepPositions& positions,
                                             const AttentionMasks& masks, const std::shared_ptr<AttentionPosition>& scheme) {
  AttentionOptions call;
  call.causal(options.causal())
      .empty_row(options.empty_row())
      .precision(options.precision())
      .return_weights(options.keep_attention_weights());
  call.key_lengths(lengths).query_positions(positions.queries).key_positions(positions.keys);
  call.mask(masks.mask).bias(masks.bias).query_lengths(masks.query_lengths);
  if (masks.score) call.score(*masks.score, masks.score_tables);
  if (masks.mask_program) call.mask_program(*masks.mask_program, masks.mask_tables);
  call.position(scheme).window(options.window().left, options.window().right);
  std::optional<double> scale = options.scale();
  if (!scale && query_key_norm) scale = query_key_norm->default_scale();
  call.scale(scale).softcap(options.softcap());
  if (is_training()) call.dropout(options.dropout());
  if (observer) observer(query, key, value, call);
  const AttentionOutput result = AttentionOverSequence(query, key, value, call);
  if (options.keep_attention_weights()) attention_weights_ = result.weights.flatten(0, 1);
  return linear(MergeHeads(result.output), W_o->weight, W_o->bias);
}

torch::Tensor MultiHeadAttentionImpl::forward(const torch::Tensor& queries, const torch::Tensor& keys,
                                              const torch::Tensor& values, const torch::Tensor& valid_lens,
                                              KeyValueCache* cache, const StepPositions& positions,
                                              const AttentionMasks& masks) {
  auto [query, key, value] = Projected(queries, keys, values);
  if (cache == nullptr) {
    const at::Tensor lengths =
        ClampValidLens(valid_lens, query.size(0), StepsOfSequence(query.size(2)), StepsOfSequence(key.size(2)));
    return Output(query, key, value, lengths, positions, masks, position);
  }
  RefuseSequencePart("MultiHeadAttention", kCacheOfOne);
  const int64_t steps = cache->length() + key.size(2);
  const at::Tensor lengths = ClampValidLens(valid_lens, query.size(0), query.size(2), steps);
  CheckBatch(query, key);
  const KeyValueCache before = *cache;
  Append(key, value, positions.keys, *cache);
  try {
    return OutputOf(*cache, query, lengths, positions, masks);
  } catch (...) {
    *cache = before;
    throw;
  }
}

void MultiHeadAttentionImpl::append(const torch::Tensor& keys, const torch::Tensor& values, KeyValueCache& cache) {
  const auto [key, value] = ProjectedKeysAndValues(keys, values);
  Append(key, value, {}, cache);
}

// Keys that turn once are kept turned, unless the cache holds others already.
void MultiHeadAttentionImpl::Append(const torch::Tensor& key, const torch::Tensor& value, const torch::Tensor& key_positions,
                                    KeyValueCache& cache) const {
  if (!position || !position->turns_once() || (cache.length() > 0 && !cache.turned_by())) {
    cache.append(key, value);
    return;
  }
  const int64_t before = cache.length();
  cache.append(key, value, position,
               key_positions.defined() ? key_positions.slice(StepsOf(key_positions), before) : at::Tensor());
}

torch::Tensor MultiHeadAttentionImpl::OutputOf(const KeyValueCache& cache, const torch::Tensor& query,
                                               const torch::Tensor& lengths, const StepPositions& positions,
                                               const AttentionMasks& masks) {
  std::shared_ptr<AttentionPosition> scheme = position;
  if (position && (cache.turned_by() || position->computes_tables())) scheme = std::make_shared<SchemeOfCache>(position, cache);
  if (cache.turned_by() && cache.turned_by() != position)
    throw InvalidArgument("MultiHeadAttention: cache: holds keys that another scheme turned");
  StepPositions places{positions.queries, cache.turned_by() ? cache.key_positions() : positions.keys};
  if (cache.turned_by()) CheckSame(positions.keys, places.keys, cache.length());
  const bool listed =
      places.keys.defined() && places.keys.dim() > 0 && places.keys.size(StepsOf(places.keys)) == cache.length();
  if (listed && !places.queries.defined()) {
    const int64_t steps = std::min(query.size(2), cache.length());
    places.queries = places.keys.narrow(StepsOf(places.keys), cache.length() - steps, steps);
  }
  return Output(query, cache.keys(), cache.values(), lengths, places, masks, scheme);
}

torch::Tensor MultiHeadAttentionImpl::attend(const torch::Tensor& queries, const KeyValueCache& cache,
                                             const torch::Tensor& valid_lens, const StepPositions& positions,
                                             const AttentionMasks& masks) {
  RefuseSequencePart("MultiHeadAttention", kCacheOfOne);
  if (!cache.keys().defined()) throw InvalidArgument("MultiHeadAttention: cache: nothing was appended to it");
  const at::Tensor query = ProjectedQueries(queries);
  return OutputOf(cache, query, ClampValidLens(valid_lens, query.size(0), query.size(2), cache.length()), positions, masks);
}

}  // namespace heed::nn
