#include <algorithm>
#include <limits>
#include <optional>

#include <ATen/ATen.h>

#include "distributed/blocks.h"

namespace heed::nn::distributed {
namespace {

constexpr Distance kFar = Distance{1} << 100;

int64_t Clamped(Distance place) {
  constexpr Distance kMost = std::numeric_limits<int64_t>::max() / 2;
  return static_cast<int64_t>(std::clamp(place, -kMost, kMost));
}

// How far behind a query the last key stands that it looks at, where that is bounded.
std::optional<int64_t> LastOffset(const Bounds& bounds) {
  if (bounds.causal) return bounds.right >= 0 ? std::min<int64_t>(0, bounds.right) : 0;
  return bounds.right >= 0 ? std::optional<int64_t>(bounds.right) : std::nullopt;
}

Distance LastDistance(const Bounds& bounds) {
  const std::optional<int64_t> last = LastOffset(bounds);
  return last ? Distance{*last} : kFar;
}

// How many pairs have their key at most so far behind their query.
Distance PairsUpTo(Piece queries, Piece keys, Distance first_offset, Distance offset) {
  // Keys of the first query; each has one more, up to all there are.
  const Distance first = queries.start - first_offset + offset + 1 - keys.start;
  // The sum of 0, 1, .. count - 1, none of which counts for more than there are keys.
  const auto below = [&](Distance count) {
    count = std::max<Distance>(0, count);
    const Distance most = std::min<Distance>(count, keys.length() + 1);
    return most * (most - 1) / 2 + (count - most) * keys.length();
  };
  return below(first + queries.length()) - below(first);
}

// From the first to the last token of `of` that stands near any of `around`, so far before or behind it.
Piece Near(const at::Tensor& centres, Piece around, const at::Tensor& places, Piece of, std::optional<int64_t> before,
           std::optional<int64_t> behind) {
  const Piece none{of.start, of.start};
  if (around.empty() || of.empty()) return none;
  const at::Tensor centre = centres.narrow(1, around.start, around.length()), place = places.narrow(1, of.start, of.length());
  at::Tensor near = at::ones_like(place, place.options().dtype(at::kBool));
  if (before) near = near.logical_and(place >= centre.min() - *before);
  if (behind) near = near.logical_and(place <= centre.max() + *behind);
  const at::Tensor found = near.any(0).nonzero();
  if (found.size(0) == 0) return none;
  return {of.start + found[0].item<int64_t>(), of.start + found[-1].item<int64_t>() + 1};
}

std::optional<int64_t> Left(const Bounds& bounds) {
  return bounds.left >= 0 ? std::optional<int64_t>(bounds.left) : std::nullopt;
}

int64_t Longest(const at::Tensor& lengths, int64_t otherwise) {
  if (!lengths.defined()) return otherwise;
  return lengths.numel() > 0 ? lengths.max().item<int64_t>() : 0;
}

at::Tensor Listed(const at::Tensor& list, int64_t first, int64_t count) {
  return list.defined() ? list : (at::arange(count, at::kLong) + first).unsqueeze(0);
}

}  // namespace

Piece Order::KeysOf(Piece some_queries, Piece some_keys) const {
  some_queries = some_queries.Within(queries), some_keys = some_keys.Within(keys);
  if (some_queries.empty() || some_keys.empty()) return {some_keys.start, some_keys.start};
  const Distance first = bounds.left >= 0 ? some_queries.start - first_offset - bounds.left : -kFar;
  const Piece seen{Clamped(first), Clamped(some_queries.stop - first_offset + LastDistance(bounds))};
  return some_keys.Within(seen).Joined(some_keys.Within({0, prefix}));
}

Piece Order::QueriesOf(Piece some_queries, Piece some_keys) const {
  some_queries = some_queries.Within(queries), some_keys = some_keys.Within(keys);
  if (some_queries.empty() || some_keys.empty()) return {some_queries.start, some_queries.start};
  if (some_keys.start < prefix) return some_queries;
  const Distance last = bounds.left >= 0 ? some_keys.stop + first_offset + bounds.left : kFar;
  return some_queries.Within({Clamped(some_keys.start + first_offset - LastDistance(bounds)), Clamped(last)});
}

int64_t Order::Pairs(Piece some_queries, Piece some_keys) const {
  some_queries = some_queries.Within(queries), some_keys = some_keys.Within(keys);
  if (some_queries.empty() || some_keys.empty()) return 0;
  const Piece behind{std::max(some_keys.start, std::min(prefix, some_keys.stop)), some_keys.stop};
  Distance seen = Distance{some_queries.length()} * (some_keys.length() - behind.length());
  seen += PairsUpTo(some_queries, behind, first_offset, LastDistance(bounds));
  if (bounds.left >= 0) seen -= PairsUpTo(some_queries, behind, first_offset, -Distance{bounds.left} - 1);
  return static_cast<int64_t>(seen);
}

Piece ListedOrder::KeysOf(Piece some_queries, Piece some_keys) const {
  some_queries = some_queries.Within(queries), some_keys = some_keys.Within(keys);
  return Near(query_places, some_queries, key_places, some_keys, Left(bounds), LastOffset(bounds));
}

Piece ListedOrder::QueriesOf(Piece some_queries, Piece some_keys) const {
  some_queries = some_queries.Within(queries), some_keys = some_keys.Within(keys);
  return Near(key_places, some_keys, query_places, some_queries, LastOffset(bounds), Left(bounds));
}

int64_t FirstQuery(const AttentionOptions& options, int64_t q_len, int64_t kv_len) {
  if (options.query_offset()) return *options.query_offset();
  return options.causal() == Causal::kBottomRight ? options.key_offset().value_or(0) + kv_len - q_len : 0;
}

std::variant<Order, ListedOrder> OrderOf(const AttentionOptions& options, int64_t q_len, int64_t kv_len) {
  const AttentionTensors& tensors = options.tensors();
  const Piece queries{0, Longest(tensors.query_lengths, q_len)}, keys{0, Longest(tensors.key_lengths, kv_len)};
  const Bounds bounds{options.causal() != Causal::kNone, options.window().left, options.window().right};
  const int64_t first_query = FirstQuery(options, q_len, kv_len), first_key = options.key_offset().value_or(0);
  if (!tensors.query_positions.defined() && !tensors.key_positions.defined()) {
    return Order{bounds, Distance{first_key} - first_query, Longest(tensors.prefix_lengths, 0), queries, keys};
  }
  return ListedOrder{bounds, Listed(tensors.query_positions, first_query, q_len),
                     Listed(tensors.key_positions, first_key, kv_len), queries, keys};
}

}  // namespace heed::nn::distributed
