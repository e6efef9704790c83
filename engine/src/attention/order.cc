#include "attention/order.h"

#include <algorithm>
#include <limits>

#include "core/checked_integer.h"

namespace heed::attention {

using core::SaturatedDifference;
using core::SaturatedSum;

namespace {

// Appends the rows of one side: the list as given, or offset, offset + 1, ... Returns their number.
int64_t Append(const Positions& positions, int64_t first, int64_t count, std::vector<double>& out) {
  if (!positions.listed()) {
    for (int64_t t = 0; t < count; ++t) out.push_back(static_cast<double>(first + t));
    return 1;
  }
  const auto append = [&](const auto& list) {
    for (int64_t b = 0; b < list.extent[0]; ++b)
      for (int64_t t = 0; t < list.extent[1]; ++t) out.push_back(static_cast<double>(list(b, t)));
    return list.extent[0];
  };
  if (const auto* whole = std::get_if<View<const int64_t, 2>>(&positions.list)) return append(*whole);
  return append(std::get<View<const double, 2>>(positions.list));
}

}  // namespace

Order::Order(const Attention& attention, const Shape& shape)
    : attention_(attention),
      listed_(attention.query_positions.listed() || attention.key_positions.listed()),
      bounded_(attention.causal != Causal::kNone || attention.window.present()) {
  if (listed_) List(shape);
}

void Order::List(const Shape& shape) {
  q_len_ = static_cast<std::size_t>(shape.q_len);
  kv_len_ = static_cast<std::size_t>(shape.kv_len);
  const int64_t first_key = attention_.key_positions.offset.value_or(0);
  key_rows_ = Append(attention_.key_positions, first_key, shape.kv_len, key_positions_);
  query_rows_ =
      Append(attention_.query_positions, first_key - FirstOffset(shape.q_len, shape.kv_len), shape.q_len, query_positions_);
  if (bounded_) Rank();
}

void Order::Rank() {
  distinct_begin_.push_back(0);
  for (std::size_t row = 0; row < static_cast<std::size_t>(key_rows_); ++row) {
    const auto begin = key_positions_.begin() + static_cast<std::ptrdiff_t>(row * kv_len_);
    const auto end = begin + static_cast<std::ptrdiff_t>(kv_len_);
    sorted_.push_back(std::is_sorted(begin, end));
    if (!sorted_.back()) {
      const auto first = static_cast<std::ptrdiff_t>(distinct_.size());
      distinct_.insert(distinct_.end(), begin, end);
      std::sort(distinct_.begin() + first, distinct_.end());
      distinct_.erase(std::unique(distinct_.begin() + first, distinct_.end()), distinct_.end());
      key_ranks_.resize(key_positions_.size());
      for (std::size_t j = 0; j < kv_len_; ++j) {
        const auto at = std::lower_bound(distinct_.begin() + first, distinct_.end(), begin[static_cast<std::ptrdiff_t>(j)]);
        key_ranks_[row * kv_len_ + j] = static_cast<int32_t>(at - distinct_.begin() - first);
      }
    }
    distinct_begin_.push_back(static_cast<int64_t>(distinct_.size()));
  }
}

int64_t Order::FirstOffset(int64_t q_len, int64_t kv_len) const {
  const int64_t first_key = attention_.key_positions.offset.value_or(0);
  const int64_t aligned = attention_.causal == Causal::kBottomRight ? first_key + kv_len - q_len : 0;
  return first_key - attention_.query_positions.offset.value_or(aligned);
}

bool Order::SameForAllQueries() const { return !bounded_; }

Band Order::BandOf(int64_t b, int64_t q_len, int64_t kv_len) const {
  // Beyond all keys and queries, with room for the number of a query.
  constexpr int64_t kBeyond = std::numeric_limits<int64_t>::max() / 2;
  const int64_t own = -FirstOffset(q_len, kv_len);  // the key that stands where query 0 stands
  Band band{.begin = -kBeyond, .end = kBeyond, .least_end = -kBeyond, .kv_len = kv_len};
  if (attention_.causal != Causal::kNone) band.end = SaturatedSum(own, 1);
  if (attention_.window.right >= 0) band.end = std::min(band.end, SaturatedSum(SaturatedSum(own, attention_.window.right), 1));
  if (attention_.window.left >= 0) band.begin = SaturatedDifference(own, attention_.window.left);
  band.begin = std::clamp(band.begin, -kBeyond, kBeyond);
  band.end = std::clamp(band.end, -kBeyond, kBeyond);
  // A prefix goes with causality and a bound on the right alone: what it adds continues the range.
  const auto& prefix = attention_.prefix_lengths.values;
  if (prefix.present()) band.least_end = std::min(prefix(b, 0), kv_len);
  return band;
}

Sight Order::Of(int64_t b, int64_t i, int64_t q_len, int64_t kv_len) const {
  if (!listed_) return {BandOf(b, q_len, kv_len).Of(i), {}};
  if (!bounded_) return {{0, kv_len}, {}};
  Sight sight = FromList(b, i, kv_len);
  const auto& prefix = attention_.prefix_lengths.values;
  if (prefix.present()) sight.keys.end = std::max(sight.keys.end, std::min(prefix(b, 0), kv_len));
  return sight;
}

KeyRange Order::Reachable(const double* sorted, int64_t count, double position) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double low = -kInfinity, high = kInfinity;
  if (attention_.causal != Causal::kNone) high = position;
  if (attention_.window.right >= 0) high = std::min(high, position + static_cast<double>(attention_.window.right));
  if (attention_.window.left >= 0) low = position - static_cast<double>(attention_.window.left);
  return {std::lower_bound(sorted, sorted + count, low) - sorted, std::upper_bound(sorted, sorted + count, high) - sorted};
}

Sight Order::FromList(int64_t b, int64_t i, int64_t kv_len) const {
  const double position = QueryPositions(b)[i];
  if (!Ranked(b)) return {Reachable(KeyPositions(b), kv_len, position), {}};
  const std::size_t row = Row(key_rows_, b);
  const double* distinct = distinct_.data() + distinct_begin_[row];
  return {{0, kv_len}, Reachable(distinct, distinct_begin_[row + 1] - distinct_begin_[row], position)};
}

}  // namespace heed::attention
