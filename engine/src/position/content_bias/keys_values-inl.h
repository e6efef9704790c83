// Relative positions in the content (Shaw et al. 2018): q[i].(k[j] + a[c]) and sum_j p[i,j] (v[j] + b[c]), where c is the
// clipped offset of key j from query i.
//
// The products q.a are made once a panel, one row an offset, and picked by the offset of each pair; the weights are gathered
// by offset the same way, and multiplied with b once at the panel's end. Nothing has the size of queries times keys, and far
// tiles, where all offsets are clipped to the same row, cost one addition a pair.
#if defined(HEED_POSITION_CONTENT_BIAS_KEYS_VALUES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_CONTENT_BIAS_KEYS_VALUES_INL_H_
#undef HEED_POSITION_CONTENT_BIAS_KEYS_VALUES_INL_H_
#else
#define HEED_POSITION_CONTENT_BIAS_KEYS_VALUES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <variant>

#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "position/content_bias/scheme.h"
#include "position/hook_place.h"
#include "position/offset-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class ContentKeysValues final : public PositionHook<T> {
 public:
  using Call = position::ContentBiasCall<T>;
  ContentKeysValues(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call),
        rows_(call.rows()),
        key_width_(place.cut.head_dim),
        value_width_(place.cut.value_dim),
        output_row_(place.output_row),
        offsets_(place.plan, (rows_ - 1) / 2),
        scratch_(scratch),
        mass_(scratch.mass) {}

  Term term() const override { return Term::kContent; }

  void Begin(const PanelArrays<T>& panel) override {
    offsets_.Begin(panel.b);
    if (call_.keys()) Products(call_.keys()->rows.rows(), panel.queries, panel.panel, scratch_.content);
    if (!call_.backward()) {
      mass_ = OutputRows(panel);
      return;
    }
    const int64_t size = rows_ * panel.panel;
    d_keys_ = call_.keys() ? call_.keys()->parts.At(panel.block, panel.chunk) : nullptr;
    d_values_ = call_.values() ? call_.values()->parts.At(panel.block, panel.chunk) : nullptr;
    gathers_keys_ = call_.keys() && (d_keys_ || panel.d_queries);
    if (gathers_keys_) std::fill_n(scratch_.d_content, size, T{0});
    if (d_values_) std::fill_n(scratch_.mass, size, T{0});
    if (call_.values()) Products(call_.values()->rows.rows(), panel.d_out, panel.panel, scratch_.value_content);
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    if (call_.keys()) {
      Pick(place, scratch_.content, empty, scores);
    } else if (empty) {
      AddTerms(d_, place, empty, scores, [&](int64_t, int64_t) HWY_ATTR { return hn::Zero(d_); });
    }
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (gathers_keys_) Gather(place, d_scores, scratch_.d_content);
  }

  void Weigh(const TilePlace& place, const T* weights) override {
    if (call_.backward() ? d_values_ != nullptr : call_.values().has_value()) Gather(place, weights, mass_);
  }

  void AddToWeightGradient(const TilePlace& place, T* d_weights) override {
    if (call_.values()) Pick(place, scratch_.value_content, false, d_weights);
  }

  void End(const PanelArrays<T>& panel) override {
    if (!call_.backward()) {
      // Splits are merged without their tiles.
      if (call_.values()) AddColumns(call_.values()->rows.rows(), OutputRows(panel), panel.panel, panel.output);
      return;
    }
    if (gathers_keys_ && panel.d_queries)
      AddColumns(call_.keys()->rows.rows(), scratch_.d_content, panel.panel, panel.d_queries);
    if (d_keys_) AddRows(panel, scratch_.d_content, {panel.query_rows, key_width_}, d_keys_);
    if (d_values_) AddRows(panel, scratch_.mass, {panel.d_out_rows, value_width_}, d_values_);
  }

 private:
  using Rows = View<const T, 2>;

  T* OutputRows(const PanelArrays<T>& panel) const { return panel.output + output_row_ * panel.panel; }

  // products[r, w] = table row r . column w
  void Products(const Rows& table, const T* columns, int64_t panel, T* products) {
    Product(d_, Scalars<T>{table.data, table.stride[0], table.stride[1]}, {columns, panel}, {rows_, table.extent[1], panel},
            Fresh(products, panel));
  }

  // columns[c, w] += sum over rows of table(r, c) * factors[r, w]
  void AddColumns(const Rows& table, const T* factors, int64_t panel, T* columns) {
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

  static constexpr hn::ScalableTag<T> d_{};
  const Call& call_;
  int64_t rows_, key_width_, value_width_;  // 2M+1; D and Dv padded
  int64_t output_row_;
  Offsets offsets_;
  const typename Call::Scratch scratch_;
  T* mass_;  // [2M+1, panel] weights by offset
  // Of the panel at hand: where its gradients gather, and whether that of the products with the keys' table is needed.
  T *d_keys_ = nullptr, *d_values_ = nullptr;
  bool gathers_keys_ = false;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
