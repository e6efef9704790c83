#include "attention/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/checked_integer.h"
#include "core/validation.h"
#include "simd/tuning.h"

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

double ScaleOf(const Attention& attention, const Shape& shape) {
  return attention.scale ? *attention.scale : 1.0 / std::sqrt(static_cast<double>(shape.head_dim));
}

Plan::Plan(const Attention& attention, const Shape& shape, const HiddenPairs& hidden)
    : attention_(attention), hidden_(hidden), shape_(shape), order_(attention, shape), scale_(ScaleOf(attention, shape)) {}

QueryRow Plan::Row(int64_t b, int64_t h, int64_t i) const {
  return RowOf(order_.Of(b, i, QueryCount(b), KeyCount(b)), b, h, i);
}

inline QueryRow Plan::RowOf(const Sight& sight, int64_t b, int64_t h, int64_t i) const {
  const auto& query_lengths = attention_.query_lengths.values;
  if (query_lengths.present() && i >= query_lengths(b, 0)) return {};
  QueryRow row{sight.keys, sight.ranks, false};
  const auto& key_lengths = attention_.key_lengths.values;
  if (key_lengths.present()) row.keys.end = std::min(row.keys.end, key_lengths(b, key_lengths.extent[1] == 1 ? 0 : i));
  if (row.active() && (attention_.empty_row == EmptyRow::kZero || SeesAny(b, h, i, row))) return row;
  if (attention_.empty_row == EmptyRow::kUniform) return {{0, KeyCount(b)}, {}, true};
  return {};
}

bool Plan::SeesAny(int64_t b, int64_t h, int64_t i, const QueryRow& row) const {
  const int32_t* ranks = order_.KeyRanks(b);
  if (!ranks && !dense()) return true;
  const auto& mask = attention_.mask;
  for (int64_t j = row.keys.begin; j < row.keys.end; ++j) {
    if (ranks && (ranks[j] < row.ranks.begin || ranks[j] >= row.ranks.end)) continue;
    if (mask.present() && !core::Broadcast(mask.values, b, h, i, j)) continue;
    if (!hidden_.any() || !hidden_.Hidden(b, h, i, j)) return true;
  }
  return false;
}

namespace {

// Takes one row into what a panel reaches and into where it needs no mask.
void Include(const QueryRow& row, bool ranked, PanelRange& range, bool& any) {
  if (!row.active()) return;
  // Where a row looks at keys that are not its own, or at some of a range only, every tile takes mask code.
  const KeyRange interior = row.uniform || ranked ? KeyRange{row.keys.end, row.keys.end} : row.keys;
  if (!any) {
    range.reach = row.keys;
    range.interior = interior;
    any = true;
    return;
  }
  range.reach = {std::min(range.reach.begin, row.keys.begin), std::max(range.reach.end, row.keys.end)};
  range.interior = {std::max(range.interior.begin, interior.begin), std::min(range.interior.end, interior.end)};
}

}  // namespace

PanelRange Plan::Panel(int64_t b, const KeyRange& heads, int64_t q_begin, int64_t q_count, QueryRow* rows) const {
  PanelRange range;
  bool any = false;
  const bool ranked = order_.KeyRanks(b) != nullptr, all_same = SameForAllQueries(), listed = order_.listed();
  const int64_t different = all_same ? std::min<int64_t>(1, q_count) : q_count;
  const Band band = listed ? Band{} : order_.BandOf(b, QueryCount(b), KeyCount(b));
  for (int64_t x = 0; x < heads.end - heads.begin && q_count > 0; ++x, rows += q_count) {
    const int64_t h = heads.begin + x;
    for (int64_t w = 0; w < different; ++w) {
      const int64_t i = q_begin + w;
      rows[w] = listed ? Row(b, h, i) : RowOf({band.Of(i), {}}, b, h, i);
      Include(rows[w], ranked, range, any);
      const uint64_t lanes = (all_same ? LowBits(q_count) : uint64_t{1}) << (x * q_count + w);
      if (rows[w].uniform) range.uniform |= lanes;
      if (!rows[w].active()) range.idle |= lanes;
    }
    std::fill(rows + different, rows + q_count, rows[0]);
  }
  return range;
}

namespace {

// The first tile of `tiles` (in order, or from the last one back) that some key of is seen, or -1; those that are hidden
// together are judged together.
template <class Judge>
int64_t FirstSeen(const Judge& judge, int64_t begin, int64_t end, bool backwards) {
  if (begin >= end || judge(begin, end) == Seen::kNone) return -1;
  if (end - begin == 1) return begin;
  const int64_t middle = begin + (end - begin) / 2;
  const int64_t near = backwards ? FirstSeen(judge, middle, end, true) : FirstSeen(judge, begin, middle, false);
  if (near >= 0) return near;
  return backwards ? FirstSeen(judge, begin, middle, true) : FirstSeen(judge, middle, end, false);
}

}  // namespace

KeyRange Plan::Trim(const PanelRange& range, const PairBlock& pairs, int64_t tile) const {
  const KeyRange& keys = pairs.keys;
  // Queries that look at all keys alike are not asked for what they may see.
  if (!hidden_.judges() || range.uniform != 0 || keys.empty() || pairs.queries.empty()) return keys;
  const int64_t first_tile = keys.begin / tile, last_tile = DivideUp(keys.end, tile);
  const auto judge = [&](int64_t begin, int64_t end) {
    return hidden_.Judge(
        {pairs.b, pairs.heads, pairs.queries, {std::max(keys.begin, begin * tile), std::min(keys.end, end * tile)}});
  };
  const int64_t first = FirstSeen(judge, first_tile, last_tile, false);
  if (first < 0) return {keys.begin, keys.begin};
  const int64_t last = FirstSeen(judge, first, last_tile, true);
  return {std::max(keys.begin, first * tile), std::min(keys.end, (last + 1) * tile)};
}

bool Plan::SameForAllQueries() const {
  const bool dense_emptiness = attention_.empty_row == EmptyRow::kUniform && dense();
  return order_.SameForAllQueries() && !attention_.query_lengths.present() && !dense_emptiness &&
         (!attention_.key_lengths.present() || attention_.key_lengths.values.extent[1] == 1);
}

namespace {

// A few queries leave most lanes of a panel idle: the heads that share keys then stand side by side, and each key is read once
// for all of them.
int64_t HeadsSideBySide(const Shape& shape, int accumulator_bytes) {
  const int64_t group = HeadsOfKeyHead(shape);
  return group * shape.q_len <= simd::kWidestPanelBytes / accumulator_bytes ? group : 1;
}

// heads: how many stand side by side. alone: chunks are all the parallel work that a batch row has.
Cut CutCommon(const Shape& shape, int64_t heads, int accumulator_bytes, bool alone) {
  const simd::TileSizes sizes = simd::ChooseTiles(heads * shape.q_len, accumulator_bytes);
  const int64_t most_chunks = alone ? simd::kMaxChunksOfOneHead : simd::kMaxChunks;
  Cut cut{};
  cut.panel = sizes.panel;
  cut.tile = sizes.tile;
  cut.group = heads;
  cut.panels = DivideUp(shape.q_len, cut.panel);
  cut.chunk =
      std::max(alone ? simd::kMinChunkOfOneHead : sizes.min_chunk, RoundUp(DivideUp(shape.kv_len, most_chunks), cut.tile));
  cut.chunks = std::max<int64_t>(1, DivideUp(shape.kv_len, cut.chunk));
  cut.split = std::max<int64_t>(cut.tile, RoundUp(shape.kv_len, cut.tile));
  cut.splits = 1;
  cut.piece = std::max<int64_t>(1, PanelsOfKeyHead(cut, HeadsOfKeyHead(shape)));
  cut.pieces = 1;
  cut.head_dim = RoundUp(shape.head_dim, kLaneQuantum);
  cut.value_dim = RoundUp(shape.value_dim, kLaneQuantum);
  return cut;
}

}  // namespace

int64_t LongestReach(const Attention& attention, const Shape& shape, int64_t queries) {
  const bool listed = attention.query_positions.listed() || attention.key_positions.listed();
  const Window& window = attention.window;
  const int64_t right = attention.causal != Causal::kNone ? 0 : window.right;
  const bool bounded = right >= 0 && !listed && !attention.prefix_lengths.present() && attention.empty_row == EmptyRow::kZero;
  if (!bounded) return shape.kv_len;
  int64_t reach = shape.kv_len;
  if (window.left >= 0) reach = std::min(reach, SaturatedSum(SaturatedSum(window.left, right), queries));
  // The last query's range ends behind the key that stands where it does, which packed sequences have each for itself.
  if (attention.packed.present()) return reach;
  const int64_t first_offset = Order(attention, shape).FirstOffset(shape.q_len, shape.kv_len);
  return std::clamp<int64_t>(SaturatedDifference(SaturatedSum(shape.q_len, right), first_offset), 0, reach);
}

Cut CutForward(const Attention& attention, const Shape& shape, int accumulator_bytes, bool tangents) {
  Cut cut = CutCommon(shape, HeadsSideBySide(shape, accumulator_bytes), accumulator_bytes, shape.q_heads == 1);
  if (HasFewQueries(shape) && !tangents) {
    cut.tile = simd::kFewTileKeys;
    cut.split = std::max<int64_t>(cut.tile, RoundUp(shape.kv_len, cut.tile));
  }
  // With few panels a long row of keys is walked in pieces, whatever the batch: a row alone and in a batch is the same.
  if (cut.panels <= simd::kFewPanels) {
    const int64_t reach = LongestReach(attention, shape, std::min(cut.panel, shape.q_len));
    const int64_t split = RoundUp(DivideUp(reach, simd::kMaxSplits), cut.tile);
    const int64_t longest = std::max(simd::kLongSplit, RoundUp(DivideUp(reach, simd::kMaxLongSplits), cut.tile));
    const bool many = HasFewQueries(shape) && shape.kv_heads >= simd::kManyKeyHeads;
    const int64_t chosen = std::min(cut.split, std::clamp(split, (many ? 2 : 1) * simd::kMinSplit, longest));
    // A reach that begins within a tile is walked from there.
    const int64_t walked = std::min(shape.kv_len, reach < shape.kv_len ? reach + cut.tile - 1 : reach);
    cut.splits = std::max<int64_t>(1, DivideUp(walked, chosen));
    if (cut.splits > 1) cut.split = chosen;
  }
  return cut;
}

Cut CutBackward(const Shape& shape, int accumulator_bytes, const BackwardLimits& limits) {
  const int64_t heads = limits.one_head ? 1 : HeadsSideBySide(shape, accumulator_bytes);
  const bool alone = shape.kv_heads == 1 && (limits.all_queries || heads == shape.q_heads);
  Cut cut = CutCommon(shape, heads, accumulator_bytes, alone);
  if (limits.all_keys) {
    cut.chunk = std::max<int64_t>(cut.tile, RoundUp(shape.kv_len, cut.tile));
    cut.chunks = 1;
  }
  if (limits.all_queries) return cut;
  const bool few_tasks = cut.chunks * shape.kv_heads <= simd::kFewBackwardTasks;
  const int64_t panels = PanelsOfKeyHead(cut, HeadsOfKeyHead(shape));
  const int64_t shortest = DivideUp(few_tasks ? simd::kMinPieceOfFewTasks : simd::kMinPiece, cut.panel);
  const int64_t wanted = simd::kBackwardTasks / cut.chunks / std::max<int64_t>(1, shape.kv_heads);
  const int64_t pieces = std::clamp<int64_t>(panels / shortest, 1, std::max<int64_t>(1, wanted));
  cut.piece = std::max<int64_t>(1, DivideUp(panels, pieces));
  cut.pieces = std::max<int64_t>(1, DivideUp(panels, cut.piece));
  return cut;
}

bool Uneven(const Attention& attention) {
  return attention.causal != Causal::kNone || attention.window.present() || attention.key_lengths.present() ||
         attention.query_lengths.present() || attention.packed.present();
}

}  // namespace heed::attention
