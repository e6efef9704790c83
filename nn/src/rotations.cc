#include "heed/nn/rotations.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include "heed/scheme_formulas.h"
#include "refuse.h"
#include "tensor_view.h"
#include "token_positions.h"

namespace heed::nn {
namespace {

void CheckOperand(const char* scheme, const char* name, const at::Tensor& tensor, int64_t head_dim) {
  if (!tensor.defined()) Refuse(scheme, ": ", name, ": expected a tensor, got an undefined one");
  if (tensor.dim() != 4 || tensor.size(3) != head_dim) {
    Refuse(scheme, ": ", name, ": expected shape [batch, heads, steps, ", head_dim, "], got ", tensor.sizes());
  }
}

// Positions of the tokens of a tensor [B, H, N, D].
void CheckPositions(const char* scheme, const char* name, const TokenPositions& positions, const at::Tensor& tensor) {
  if (const auto* list = std::get_if<at::Tensor>(&positions)) CheckList(scheme, name, *list, tensor.size(0), tensor.size(2));
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

constexpr int64_t kMostRows = int64_t{1} << 16;  // 32 MiB for 64 pairs in float32; rows beyond are made for each call
constexpr int64_t kFewestRows = 64;

at::Tensor Counted(int64_t first, int64_t steps) { return at::arange(first, first + steps, at::kLong); }

}  // namespace

// Cosines and sines of tokens in a row from position 0 on, for the longest text so far, one for each type; where the
// frequencies depend on the length of the text, those of its last length. Safe for use by many threads at once.
class KeptTables {
 public:
  using Make = std::function<RotaryTables(const at::Tensor& positions)>;

  // Of positions first .. first + steps - 1. last: the last position of the text, where the frequencies depend on it.
  RotaryTables Rows(const Make& make, int64_t first, int64_t steps, std::optional<int64_t> last, at::ScalarType type) {
    if (first < 0 || first > kMostRows - steps) return make(Counted(first, steps));
    const int64_t end = first + steps;
    const std::scoped_lock lock(mutex_);
    Kept& kept = kept_[type];
    if (!kept.tables.cos.defined() || kept.last != last || kept.tables.cos.size(0) < end) {
      // Another length of the text makes these rows worthless: then no more of them than one call asks for.
      const auto doubled = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(end)));
      const int64_t rows = last ? std::max(end, *last + 1) : std::max(kFewestRows, doubled);
      const c10::InferenceMode off(false);  // tensors of that mode could not be saved for a backward pass
      kept = {last, make(Counted(0, std::min(rows, kMostRows)))};
    }
    return {kept.tables.cos.narrow(0, first, steps), kept.tables.sin.narrow(0, first, steps)};
  }

 private:
  struct Kept {
    std::optional<int64_t> last;
    RotaryTables tables;
  };

  std::mutex mutex_;
  std::map<at::ScalarType, Kept> kept_;
};

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
  CheckOperand("Rotary", "query", query, head_dim_);
  CheckOperand("Rotary", "key", key, head_dim_);
  CheckPositions("Rotary", "query_positions", query_positions, query);
  CheckPositions("Rotary", "key_positions", key_positions, key);
  std::optional<int64_t> last;
  if (!fixed_) last = std::max(LastOf(query_positions, query.size(2)), LastOf(key_positions, key.size(2)));
  const RotaryTables turn_queries = Tables(query, query_positions, last);
  const bool shared =
      AreSame(query_positions, key_positions) && query.size(2) == key.size(2) && query.scalar_type() == key.scalar_type();
  return {Turned(query, turn_queries), Turned(key, shared ? turn_queries : Tables(key, key_positions, last))};
}

at::Tensor RotaryImpl::rotate_query(const at::Tensor& query, const TokenPositions& positions) const {
  if (!fixed_) return AttentionPosition::rotate_query(query, positions);
  CheckOperand("Rotary", "query", query, head_dim_);
  CheckPositions("Rotary", "query_positions", positions, query);
  return Turned(query, Tables(query, positions, std::nullopt));
}

at::Tensor RotaryImpl::rotate_key(const at::Tensor& key, const TokenPositions& positions) const {
  if (!fixed_) return AttentionPosition::rotate_key(key, positions);
  CheckOperand("Rotary", "key", key, head_dim_);
  CheckPositions("Rotary", "key_positions", positions, key);
  return Turned(key, Tables(key, positions, std::nullopt));
}

XPosImpl::XPosImpl(int64_t head_dim, double base, double scale_base, RotaryLayout layout)
    : rotary_(head_dim, RotaryOptions{.base = base}, layout) {
  column_decay_ = at::tensor(XPosRates(head_dim, scale_base, layout), at::kDouble);
}

at::Tensor XPosImpl::rotate_query(const at::Tensor& query, const TokenPositions& positions) const {
  return rotary_->rotate_query(query, positions);
}

at::Tensor XPosImpl::rotate_key(const at::Tensor& key, const TokenPositions& positions) const {
  return rotary_->rotate_key(key, positions);
}

AxialRotaryImpl::AxialRotaryImpl(int64_t head_dim, int64_t axes, double base, RotaryLayout layout)
    : head_dim_(head_dim), axes_(axes), layout_(layout) {
  if (axes < 1 || head_dim < 1 || head_dim % (2 * axes) != 0) {
    Refuse("AxialRotary: expected axes > 0 and a head_dim that is a multiple of 2 * axes, got ", axes, " and ", head_dim);
  }
  RotaryOptions block;
  block.rotary_dim = head_dim / axes;
  block.base = base;
  frequencies_ = ComputeRotaryFrequencies(block);
}

at::Tensor AxialRotaryImpl::Turned(const char* operand, const at::Tensor& x, const TokenPositions& positions) const {
  CheckOperand("AxialRotary", operand, x, head_dim_);
  const auto* list = std::get_if<at::Tensor>(&positions);
  if (list == nullptr || !list->defined() || list->dim() != 3 || (list->size(0) != 1 && list->size(0) != x.size(0)) ||
      list->size(1) != x.size(2) || list->size(2) != axes_) {
    Refuse("AxialRotary: ", operand, "_positions: expected the place of every token on each axis, [", x.size(0), ", ",
           x.size(2), ", ", axes_, "], got ", list != nullptr && list->defined() ? ShapeText(*list) : "none");
  }
  if (list->requires_grad()) Refuse("AxialRotary: ", operand, "_positions: expected positions that require no gradient");
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<at::Tensor> blocks = x.chunk(axes_, 3);
  for (int64_t axis = 0; axis < axes_; ++axis) {
    at::Tensor& block = blocks[static_cast<std::size_t>(axis)];
    const RotaryTables tables = rotary_tables(frequencies_, list->select(2, axis), type);
    block = apply_rotary(block, tables.cos, tables.sin, {layout_, /*inverse=*/false});
  }
  return at::cat(blocks, 3);
}

at::Tensor AxialRotaryImpl::rotate_query(const at::Tensor& query, const TokenPositions& positions) const {
  return Turned("query", query, positions);
}

at::Tensor AxialRotaryImpl::rotate_key(const at::Tensor& key, const TokenPositions& positions) const {
  return Turned("key", key, positions);
}

}  // namespace heed::nn
