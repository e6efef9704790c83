// Vectors by offset on the side of the queries: a panel's products with a table, picked pair by pair along a tile, and numbers
// of a tile gathered by offset. Nothing has the size of queries times keys, and far tiles, where all offsets are clipped to the
// same row, cost one addition a pair.
#if defined(HEED_POSITION_OFFSET_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_OFFSET_PANEL_INL_H_
#undef HEED_POSITION_OFFSET_PANEL_INL_H_
#else
#define HEED_POSITION_OFFSET_PANEL_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "position/offset-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
