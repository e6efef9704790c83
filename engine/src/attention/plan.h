// What has to be computed, in integers and positions alone: which keys each query may look at, how products are laid out, how
// the work is cut into panels, chunks and tasks. Nothing here depends on the number of threads or on the instruction set, so
// neither do the results' order of sums.
#ifndef HEED_ATTENTION_PLAN_H_
#define HEED_ATTENTION_PLAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/operand.h"
#include "heed/attention.h"

namespace heed::attention {

// Half-open range of keys, by index or by rank.
struct KeyRange {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

// What order allows one query: the keys of `keys`; and of those only the ones whose rank lies in `ranks`, where keys have
// ranks at all.
struct Sight {
  KeyRange keys, ranks;
};

// What order allows the queries of a batch row where positions are not listed: query i the keys begin + i .. end + i - 1 and
// those before `least_end`, as far as there are any.
struct Band {
  int64_t begin, end, least_end, kv_len;

  KeyRange Of(int64_t i) const { return {std::max<int64_t>(0, begin + i), std::max(least_end, std::min(kv_len, end + i))}; }
};

// Where queries and keys stand, and which keys a query may look at by order: causality, windows, prefixes. Lengths and dense
// masks come on top of it.
class Order {
 public:
  Order(const Attention& attention, const Shape& shape);

  // Query i of batch row b, which has `q_len` queries and `kv_len` keys.
  Sight Of(int64_t b, int64_t i, int64_t q_len, int64_t kv_len) const;
  // The same of all its queries, where positions are not listed.
  Band BandOf(int64_t b, int64_t q_len, int64_t kv_len) const;
  // Whether all queries of a batch row are allowed the same keys.
  bool SameForAllQueries() const;

  // Whether positions are given one by one. If not, key j stands at j + FirstOffset() from query 0, and query i at i.
  bool listed() const { return listed_; }
  int64_t FirstOffset(int64_t q_len, int64_t kv_len) const;
  // Listed positions, exact in double.
  const double* QueryPositions(int64_t b) const { return query_positions_.data() + Row(query_rows_, b) * q_len_; }
  const double* KeyPositions(int64_t b) const { return key_positions_.data() + Row(key_rows_, b) * kv_len_; }
  // Where keys are listed out of order: the place of each among the different positions of its batch row. Null otherwise.
  const int32_t* KeyRanks(int64_t b) const { return Ranked(b) ? key_ranks_.data() + Row(key_rows_, b) * kv_len_ : nullptr; }

 private:
  // One row of positions may serve every batch row.
  static std::size_t Row(int64_t rows, int64_t b) { return static_cast<std::size_t>(rows == 1 ? 0 : b); }
  bool Ranked(int64_t b) const { return listed_ && bounded_ && !sorted_[Row(key_rows_, b)]; }
  KeyRange Reachable(const double* sorted, int64_t count, double position) const;
  Sight FromList(int64_t b, int64_t i, int64_t kv_len) const;
  void List(const Shape& shape);
  void Rank();

  const Attention& attention_;
  bool listed_, bounded_;  // bounded: causality or a window is at work
  std::size_t q_len_ = 0, kv_len_ = 0;
  int64_t query_rows_ = 1, key_rows_ = 1;
  std::vector<double> query_positions_, key_positions_;  // [rows, N]
  std::vector<bool> sorted_;                             // [key rows]
  std::vector<double> distinct_;                         // the different key positions of every unsorted row, ascending
  std::vector<int64_t> distinct_begin_;                  // [key rows + 1], into distinct_
  std::vector<int32_t> key_ranks_;
};

// One query's view of the keys.
struct QueryRow {
  KeyRange keys;
  KeyRange ranks;        // counts where the keys of the batch row have ranks
  bool uniform = false;  // no key of its own, looks at all of them alike (EmptyRow::kUniform)
  bool active() const { return !keys.empty(); }
};

// The lowest `count` bits of a word, at most all 64.
constexpr uint64_t LowBits(int64_t count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

// What a panel of neighbouring queries sees together: nothing outside `reach`; inside `interior` every active query of the
// panel sees every key, as far as ranges of keys say, and no mask is needed.
struct PanelRange {
  KeyRange reach, interior;
  uint64_t uniform = 0, idle = 0;  // bit w: query w is uniform, sees nothing
  bool NeedsMask(int64_t begin, int64_t end) const { return begin < interior.begin || end > interior.end; }
};

// How much of some pairs is seen.
enum class Seen { kNone, kSome, kAll };

// Pairs of a batch row; no range is empty.
struct PairBlock {
  int64_t b;
  KeyRange heads, queries, keys;
};

// Pairs that are hidden for a reason of their own, beside order, lengths and masks.
class HiddenPairs {
 public:
  virtual ~HiddenPairs() = default;
  virtual bool any() const { return false; }  // whether Hidden may say yes
  virtual bool Hidden(int64_t /*b*/, int64_t /*h*/, int64_t /*i*/, int64_t /*j*/) const { return false; }
  // Whether Judge may say anything but kSome; and what it says without looking at every pair.
  virtual bool judges() const { return false; }
  virtual Seen Judge(const PairBlock&) const { return Seen::kSome; }
};

// What q.k is multiplied with.
double ScaleOf(const Attention& attention, const Shape& shape);

// How queries and keys of one call relate.
class Plan {
 public:
  Plan(const Attention& attention, const Shape& shape, const HiddenPairs& hidden);

  // The row of query i for head h. Heads differ only where a dense mask or a scheme leaves a query of theirs without keys.
  QueryRow Row(int64_t b, int64_t h, int64_t i) const;
  // The rows q_begin .. q_begin + q_count - 1 of neighbouring heads side by side, at most 64 in all, written to `rows`, and
  // what they see together: row x * q_count + w is that of query q_begin + w for head heads.begin + x.
  PanelRange Panel(int64_t b, const KeyRange& heads, int64_t q_begin, int64_t q_count, QueryRow* rows) const;

  // Of the keys of some pairs, which begin with a tile, those from the first to the last tile that is not hidden as a whole.
  // range: what their queries reach.
  KeyRange Trim(const PanelRange& range, const PairBlock& pairs, int64_t tile) const;
  // What is hidden for a reason of its own: all that is not said by rows, but for a dense mask.
  bool judges() const { return hidden_.judges(); }
  bool hides() const { return hidden_.any() || hidden_.judges(); }
  Seen Judge(const PairBlock& pairs) const { return hidden_.Judge(pairs); }

  const Shape& shape() const { return shape_; }
  const Order& order() const { return order_; }
  double scale() const { return scale_; }

  // How many keys of some lie in the range of query i.
  int64_t KeysSeen(int64_t b, int64_t h, int64_t i, const KeyRange& keys) const {
    const KeyRange own = Row(b, h, i).keys;
    return std::max<int64_t>(0, std::min(own.end, keys.end) - std::max(own.begin, keys.begin));
  }

  // Queries and keys of a batch row. Packed sequences lie in row 0 of the arrays, from a first token on.
  int64_t QueryCount(int64_t b) const { return Count(attention_.packed.query_offsets, b, shape_.q_len); }
  int64_t KeyCount(int64_t b) const { return Count(attention_.packed.key_offsets, b, shape_.kv_len); }
  int64_t FirstQuery(int64_t b) const { return packed() ? attention_.packed.query_offsets(b) : 0; }
  int64_t FirstKey(int64_t b) const { return packed() ? attention_.packed.key_offsets(b) : 0; }
  int64_t ArrayRow(int64_t b) const { return packed() ? 0 : b; }
  // Queries of all batch rows, and those before row b.
  int64_t AllQueries() const { return packed() ? attention_.packed.query_offsets(shape_.batch) : shape_.batch * shape_.q_len; }
  int64_t QueriesBefore(int64_t b) const { return packed() ? FirstQuery(b) : b * shape_.q_len; }
  int64_t AllKeys() const { return packed() ? attention_.packed.key_offsets(shape_.batch) : shape_.batch * shape_.kv_len; }
  int64_t KeysBefore(int64_t b) const { return packed() ? FirstKey(b) : b * shape_.kv_len; }
  // key position - query position of key 0 and query 0; not for listed positions
  int64_t FirstOffset(int64_t b) const { return order_.FirstOffset(QueryCount(b), KeyCount(b)); }

 private:
  bool packed() const { return attention_.packed.present(); }
  static int64_t Count(const View<const int64_t, 1>& offsets, int64_t b, int64_t all) {
    return offsets.present() ? offsets(b + 1) - offsets(b) : all;
  }
  // Whether every query of a batch row and head sees the same keys.
  bool SameForAllQueries() const;
  bool SeesAny(int64_t b, int64_t h, int64_t i, const QueryRow& row) const;
  // What is left of a query's sight behind lengths and empty rows.
  QueryRow RowOf(const Sight& sight, int64_t b, int64_t h, int64_t i) const;
  // Whether keys are hidden one by one.
  bool dense() const { return attention_.mask.present() || hidden_.any(); }

  const Attention& attention_;
  const HiddenPairs& hidden_;
  Shape shape_;
  Order order_;
  double scale_;
};

// Sizes in elements. A panel is as many queries as fill the SIMD lanes of one register tile; a tile is as many keys as keep
// its scores, keys and values in the first-level cache; a chunk is the keys whose gradients one backward task sums up, and a
// piece the queries that it sums over; a split is the keys that one forward task walks.
struct Cut {
  int64_t panel;     // queries, a multiple of kLaneQuantum
  int64_t tile;      // keys, a multiple of kDropoutKeys
  int64_t group;     // query heads side by side in one panel; they share their key head
  int64_t panels;    // per group of heads
  int64_t split;     // keys of a panel's reach, a multiple of tile
  int64_t splits;    // per panel
  int64_t chunk;     // keys, a multiple of tile
  int64_t chunks;    // per head
  int64_t piece;     // panels of all query heads of a key head, one group of heads after the other
  int64_t pieces;    // per key head
  int64_t head_dim;  // D and Dv rounded up to kLaneQuantum
  int64_t value_dim;
};

// Elements in the widest vector: panels and padded widths are multiples of it on every target.
constexpr int64_t kLaneQuantum = 16;
// Keys that share one call of the random generator.
constexpr int64_t kDropoutKeys = 8;

// n >= 0. Rounded up is at most n + multiple - 1, for which the limits on extents leave room (core/arrays.h).
constexpr int64_t DivideUp(int64_t n, int64_t divisor) { return n / divisor + (n % divisor != 0 ? 1 : 0); }
constexpr int64_t RoundUp(int64_t n, int64_t multiple) { return DivideUp(n, multiple) * multiple; }

// The part of a panel's reach that lies in chunk `index`, from the start of its first tile.
inline KeyRange ChunkOf(const KeyRange& reach, int64_t index, const Cut& cut) {
  return {std::max(index * cut.chunk, reach.begin / cut.tile * cut.tile), std::min((index + 1) * cut.chunk, reach.end)};
}

// The part of a panel's reach that split `index` walks. Splits are counted from where the reach begins: a window at the end of
// a long cache has as many as its own keys need.
inline KeyRange SplitOf(const KeyRange& reach, int64_t index, const Cut& cut) {
  const int64_t first = reach.begin / cut.tile * cut.tile, begin = first + index * cut.split;
  return {begin, index == cut.splits - 1 ? reach.end : std::min(begin + cut.split, reach.end)};
}

// At most so many keys lie in the reach of `queries` neighbouring queries, as far as options say.
int64_t LongestReach(const Attention& attention, const Shape& shape, int64_t queries);

// Query heads that share a key head.
inline int64_t HeadsOfKeyHead(const Shape& shape) { return shape.q_heads == 0 ? 1 : shape.q_heads / shape.kv_heads; }

// The panels of the `group` query heads of a key head, and those of one piece.
inline int64_t PanelsOfKeyHead(const Cut& cut, int64_t group) { return group / cut.group * cut.panels; }
inline KeyRange PanelsOfPiece(const Cut& cut, int64_t group, int64_t piece) {
  return {piece * cut.piece, std::min((piece + 1) * cut.piece, PanelsOfKeyHead(cut, group))};
}
// The first query head of a panel that is counted so; its index among the panels of its heads is the rest of panel / panels.
inline int64_t FirstHead(const Cut& cut, int64_t kv_head, int64_t group, int64_t panel) {
  return kv_head * group + panel / cut.panels * cut.group;
}

// accumulator_bytes: 4 or 8; tangents: whether the call has some, and then few queries stand in lanes as all others do.
Cut CutForward(const Attention& attention, const Shape& shape, int accumulator_bytes, bool tangents = false);
// What may not be cut.
struct BackwardLimits {
  bool all_keys = false;     // one chunk takes all keys of a head
  bool all_queries = false;  // one piece takes all queries of a key head
  bool one_head = false;     // no panel has queries of two heads
};
Cut CutBackward(const Shape& shape, int accumulator_bytes, const BackwardLimits& limits = {});

// Whether panels may differ in how many keys they reach, as far as options say.
bool Uneven(const Attention& attention);

// How the products of a call are laid out in vectors. Each layout has its classes in score_products-inl.h, panel_output-inl.h,
// tangent_output-inl.h, row_output-inl.h and layout_gradients-inl.h; no other file asks which one a call has, and tests/house
// sees to that.
enum class Layout {
  kLanes,         // queries stand in lanes, keys are broadcast, in the type of computation
  kRows,          // few queries: the elements of keys and values stand in lanes (attention/few_queries-inl.h)
  kPairs,         // lanes of bfloat16 in pairs (simd/pair_product.h) for products of inputs with inputs, which are exact so
  kRoundedPairs,  // for those with weights and gradients of scores too, which are then rounded
};

// Whether the queries that share a key head are so few that the elements of keys stand in lanes.
bool HasFewQueries(const Shape& shape);

// The one place where it is chosen. element: of queries, keys and values; tangents: whether the call has some, whose products
// are in lanes alone.
Layout LayoutOf(const Attention& attention, const Shape& shape, core::Element element, bool tangents = false);

}  // namespace heed::attention

#endif  // HEED_ATTENTION_PLAN_H_
