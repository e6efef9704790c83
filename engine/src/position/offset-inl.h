// key position - query position for the pairs of a tile, clipped to a table, and the rows of the table that they read;
// a panel's products with such a table.
#if defined(HEED_POSITION_OFFSET_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_OFFSET_INL_H_
#undef HEED_POSITION_OFFSET_INL_H_
#else
#define HEED_POSITION_OFFSET_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "attention/plan.h"
#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "simd/lane_sums-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Neighbouring rows of a table.
struct RowRange {
  int64_t first = 0, last = 0;

  bool single() const { return first == last; }
};

class Offsets {
 public:
  // Offsets are clipped to -limit .. limit.
  Offsets(const attention::Plan& plan, int64_t limit) : plan_(plan), limit_(limit) {}

  void Begin(int64_t b) {
    const attention::Order& order = plan_.order();
    listed_ = order.listed();
    if (listed_) {
      query_positions_ = order.QueryPositions(b);
      key_positions_ = order.KeyPositions(b);
    } else {
      first_ = plan_.FirstOffset(b);
    }
  }

  // Whether offsets grow by one with the key and fall by one with the lane.
  bool Diagonal(const TilePlace& place) const { return !listed_ && place.one_head; }
  // The offset of the tile's first key and lane 0, before clipping; for diagonal tiles.
  int64_t Corner(const TilePlace& place) const { return first_ + place.key - place.query; }

  // The table's row for a pair.
  int64_t Row(const TilePlace& place, int64_t j, int64_t w) const {
    return std::clamp(Between(place.queries[w], place.key + j), -limit_, limit_) + limit_;
  }
  bool listed() const { return listed_; }
  // The keys of a place whose offsets to the query of lane w are none of the ends, where positions are not listed.
  attention::KeyRange Unclipped(const TilePlace& place, int64_t w) const {
    const int64_t first = Between(place.queries[w], place.key);
    const int64_t before = std::clamp<int64_t>(-limit_ - first, 0, place.keys);
    return {before, std::clamp<int64_t>(limit_ + 1 - first, before, place.keys)};
  }
  int64_t ClippedRow(int64_t offset) const { return std::clamp(offset, -limit_, limit_) + limit_; }
  int64_t limit() const { return limit_; }

  // The rows that the pairs of the tile read; of diagonal tiles those of idle lanes too.
  RowRange Rows(const TilePlace& place) const {
    int64_t low = 0, high = 0;
    if (Diagonal(place)) {
      low = Corner(place) - (place.lane_end - 1);
      high = Corner(place) + place.keys - 1 - place.lane_begin;
    } else {
      low = high = Between(place.queries[place.lane_begin], place.key);
      for (int64_t w = place.lane_begin; w < place.used_end(); ++w)
        for (int64_t j = 0; j < place.keys; ++j) {
          const int64_t offset = Between(place.queries[w], place.key + j);
          low = std::min(low, offset);
          high = std::max(high, offset);
        }
    }
    return {ClippedRow(low), ClippedRow(high)};
  }
  // The row that all pairs of the tile share, or -1.
  int64_t CommonRow(const TilePlace& place) const {
    const RowRange rows = Rows(place);
    return rows.single() ? rows.first : -1;
  }

 private:
  int64_t Between(int64_t query, int64_t key) const {
    return listed_ ? static_cast<int64_t>(key_positions_[key] - query_positions_[query]) : first_ + key - query;
  }

  const attention::Plan& plan_;
  int64_t limit_;
  bool listed_ = false;
  int64_t first_ = 0;
  const double *query_positions_ = nullptr, *key_positions_ = nullptr;
};

// Calls visit(x, sum) for the diagonals of a tile [keys, panel]: x counts by ascending query - key, from that of the last key
// and lane 0. Neighbouring keys update overlapping stretches of the diagonals: each of as many copies as 64 bytes hold numbers
// (`stride` apart, at least keys + panel and 64 bytes long) is shifted so that its updates are aligned and no load waits for an
// unaligned store.
template <class D, class T, class Visit>
HWY_INLINE void SumDiagonals(D d, const TilePlace& place, const T* tile, T* copies, int64_t stride, const Visit& visit) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kCopies = kSumLanes<D>;
  const int64_t used = hwy::RoundUpTo(static_cast<size_t>(place.keys + place.panel), static_cast<size_t>(kCopies));
  for (int64_t copy = 0; copy < kCopies; ++copy) std::fill_n(copies + copy * stride, used, T{0});
  for (int64_t j = 0; j < place.keys; ++j) {
    const int64_t start = place.keys - 1 - j, copy = start % kCopies;
    T* sums = copies + copy * stride + (start - copy);
    for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes)
      hn::Store(hn::Add(hn::Load(d, sums + w), hn::Load(d, tile + j * place.panel + w)), d, sums + w);
  }
  const int64_t diagonals = place.keys + place.panel - 1;
  for (int64_t x = 0; x < diagonals; ++x) {
    T sum = 0;
    for (int64_t copy = 0; copy < std::min(kCopies, x + 1); ++copy) sum += copies[copy * stride + x - copy];
    visit(x, sum);
  }
}

// The rows that a diagonal tile reads, as vectors of indices.
template <class D>
class DiagonalRows {
 public:
  DiagonalRows(const Offsets& offsets, const TilePlace& place) : limit_(static_cast<Index>(offsets.limit())) {
    // Clipping the corner itself keeps its sum with a key and a lane within the index type.
    const int64_t bound = offsets.limit() + place.keys + place.panel;
    corner_ = std::clamp(offsets.Corner(place), -bound, bound);
  }

  // Of key j and the vector of lanes from w on.
  HWY_INLINE hn::Vec<hn::RebindToSigned<D>> At(int64_t j, int64_t w) const {
    const hn::RebindToSigned<D> di;
    const auto limit = hn::Set(di, limit_);
    const auto offset = hn::Sub(hn::Set(di, static_cast<Index>(corner_ + j - w)), hn::Iota(di, Index{0}));
    return hn::Add(hn::Min(hn::Max(offset, hn::Neg(limit)), limit), limit);
  }

 private:
  using Index = hn::TFromD<hn::RebindToSigned<D>>;
  Index limit_;
  int64_t corner_;
};

// Vectors by offset on the side of the queries: a panel's products with a table, picked pair by pair along a tile, and numbers
// of a tile gathered by offset. Nothing has the size of queries times keys, and far tiles, where all offsets are clipped to the
// same row, cost one addition a pair.
template <class T>
class OffsetPanel {
 public:
  using Table = View<const T, 2>;  // [2M+1, width]

  // rows: 2M+1
  OffsetPanel(const attention::Plan& plan, int64_t rows) : rows_(rows), offsets_(plan, (rows - 1) / 2) {}

  void Begin(int64_t b) { offsets_.Begin(b); }
  int64_t rows() const { return rows_; }

  // products[r, w] = table row r . column w
  void Products(const Table& table, const T* columns, int64_t panel, T* products) {
    Product(d_, Scalars<T>{table.data, table.stride[0], table.stride[1]}, {columns, panel}, {rows_, table.extent[1], panel},
            Fresh(products, panel));
  }

  // columns[c, w] += sum over rows of table(r, c) * factors[r, w]
  void AddColumns(const Table& table, const T* factors, int64_t panel, T* columns) {
    Product(d_, Scalars<T>{table.data, table.stride[1], table.stride[0]}, {factors, panel}, {table.extent[1], rows_, panel},
            AddedTo(columns, panel));
  }

  // d_table[r, :] += sum over lanes of factors[r, w] * lane_rows[w, :]
  void AddRows(const PanelArrays<T>& panel, const T* factors, VectorRows<const T> lane_rows, T* d_table) {
    Product(d_, Scalars<T>{factors, panel.panel, 1}, lane_rows, {rows_, panel.used, lane_rows.stride},
            AddedTo(d_table, lane_rows.stride));
  }

  // tile[j, w] += products[row of the pair, w], where an empty tile counts as 0
  void Pick(const TilePlace& place, const T* products, bool empty, T* tile) {
    const int64_t common = offsets_.CommonRow(place);
    if (common >= 0) {
      const T* row = products + common * place.panel;
      AddTerms(d_, place, empty, tile, [&](int64_t, int64_t w) HWY_ATTR { return hn::Load(d_, row + w); });
    } else if (offsets_.Diagonal(place)) {
      PickDiagonals(place, products, empty, tile);
    } else {
      AddScalarTerms(place, empty, tile,
                     [&](int64_t j, int64_t w) { return products[offsets_.Row(place, j, w) * place.panel + w]; });
    }
  }

  // sums[row of the pair, w] += tile[j, w]
  void Gather(const TilePlace& place, const T* tile, T* sums) {
    const int64_t common = offsets_.CommonRow(place);
    if (common >= 0) {
      const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
      for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
        auto sum = hn::Load(d_, sums + common * place.panel + w);
        for (int64_t j = 0; j < place.keys; ++j) sum = hn::Add(sum, hn::Load(d_, tile + j * place.panel + w));
        hn::Store(sum, d_, sums + common * place.panel + w);
      }
    } else if (offsets_.Diagonal(place)) {
      const int64_t corner = offsets_.Corner(place);
      for (int64_t j = 0; j < place.keys; ++j)
        for (int64_t w = place.lane_begin; w < place.used_end(); ++w)
          sums[offsets_.ClippedRow(corner + j - w) * place.panel + w] += tile[j * place.panel + w];
    } else {
      for (int64_t j = 0; j < place.keys; ++j)
        for (int64_t w = place.lane_begin; w < place.used_end(); ++w)
          sums[offsets_.Row(place, j, w) * place.panel + w] += tile[j * place.panel + w];
    }
  }

 private:
  void PickDiagonals(const TilePlace& place, const T* products, bool empty, T* tile) {
    const hn::RebindToSigned<decltype(d_)> di;
    using Index = hn::TFromD<decltype(di)>;
    const DiagonalRows<decltype(d_)> rows(offsets_, place);
    const int64_t panel = place.panel;
    AddTerms(d_, place, empty, tile, [&](int64_t j, int64_t w) HWY_ATTR {
      return hn::GatherIndex(d_, products + w, hn::Add(TimesPanel(di, rows.At(j, w), panel), hn::Iota(di, Index{0})));
    });
  }

  // row * panel, where panel is a multiple of 16 up to 64; 64-bit products are not in every instruction set.
  template <class DI, class V = hn::Vec<DI>>
  static HWY_INLINE V TimesPanel(DI, V row, int64_t panel) {
    const V sixteen = hn::ShiftLeft<4>(row);
    if (panel == 16) return sixteen;
    const V thirty_two = hn::ShiftLeft<5>(row);
    if (panel == 32) return thirty_two;
    return panel == 48 ? hn::Add(sixteen, thirty_two) : hn::ShiftLeft<6>(row);
  }

  static constexpr hn::ScalableTag<T> d_{};
  int64_t rows_;
  Offsets offsets_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
