// Relative positions in the content (Shaw et al. 2018): q[i].(k[j] + a[c]) and sum_j p[i,j] (v[j] + b[c]), where c is the
// clipped offset of key j from query i.
//
// The products q.a are made once a panel, one row an offset, and picked by the offset of each pair; the weights are gathered
// by offset the same way, and multiplied with b once at the panel's end. Nothing has the size of queries times keys, and far
// tiles, where all offsets are clipped to the same row, cost one addition a pair.
#if defined(HEED_POSITION_CONTENT_OFFSET_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_CONTENT_OFFSET_INL_H_
#undef HEED_POSITION_CONTENT_OFFSET_INL_H_
#else
#define HEED_POSITION_CONTENT_OFFSET_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <variant>

#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "hwy/highway.h"
#include "position/offset-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class ContentOffset final : public PositionHook<T> {
 public:
  // Gradients of batch row 0, key head 0: [2M+1, padded width], with strides between batch rows and key heads; null where
  // not wanted.
  struct Gradient {
    T *d_keys = nullptr, *d_values = nullptr;
    int64_t keys_batch_stride = 0, keys_head_stride = 0, values_batch_stride = 0, values_head_stride = 0;
  };

  // backward: whether panels are those of the backward pass.
  ContentOffset(const attention::Problem& problem, int64_t rows, const attention::HookScratch<T>& scratch, bool backward,
                const Gradient& gradient)
      : bias_(*problem.attention.content_bias),
        shape_(problem.plan.shape()),
        cut_(problem.cut),
        rows_(rows),
        offsets_(problem.plan, (rows - 1) / 2),
        scratch_(scratch),
        backward_(backward),
        gradient_(gradient) {}

  bool content() const override { return true; }

  void Begin(const PanelArrays<T>& panel) override {
    offsets_.Begin(panel.b);
    if (bias_.keys) Products(*bias_.keys, shape_.head_dim, panel.queries, panel.panel, scratch_.content);
    if (!backward_) return;
    const int64_t size = rows_ * panel.panel;
    if (bias_.keys) std::fill_n(scratch_.d_content, size, T{0});
    if (!bias_.values) return;
    std::fill_n(scratch_.mass, size, T{0});
    Products(*bias_.values, shape_.value_dim, panel.d_out, panel.panel, scratch_.value_content);
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    if (bias_.keys) {
      Pick(place, scratch_.content, empty, scores);
    } else if (empty) {
      AddTerms(d_, place, empty, scores, [&](int64_t, int64_t) HWY_ATTR { return hn::Zero(d_); });
    }
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (bias_.keys) Gather(place, d_scores, scratch_.d_content);
  }

  void Weigh(const TilePlace& place, const T* weights) override {
    if (bias_.values) Gather(place, weights, scratch_.mass);
  }

  void AddToWeightGradient(const TilePlace& place, T* d_weights) override {
    if (bias_.values) Pick(place, scratch_.value_content, false, d_weights);
  }

  void End(const PanelArrays<T>& panel) override {
    if (!backward_) {
      if (bias_.values) AddColumns(*bias_.values, shape_.value_dim, scratch_.mass, panel.panel, panel.output);
      return;
    }
    if (bias_.keys) {
      if (panel.d_queries) AddColumns(*bias_.keys, shape_.head_dim, scratch_.d_content, panel.panel, panel.d_queries);
      AddRows(panel, scratch_.d_content, panel.query_rows, cut_.head_dim, gradient_.d_keys, gradient_.keys_batch_stride,
              gradient_.keys_head_stride);
    }
    if (bias_.values)
      AddRows(panel, scratch_.mass, panel.d_out_rows, cut_.value_dim, gradient_.d_values, gradient_.values_batch_stride,
              gradient_.values_head_stride);
  }

 private:
  // The table as rows of `width` elements without gaps, in the scratch area.
  const T* Rows(const Table<2>& table, int64_t width) {
    std::visit(
        [&](const auto& t) {
          for (int64_t r = 0; r < rows_; ++r)
            for (int64_t c = 0; c < width; ++c) scratch_.content_table[r * width + c] = static_cast<T>(t(r, c));
        },
        table);
    return scratch_.content_table;
  }

  // products[r, w] = table row r . column w
  void Products(const Table<2>& table, int64_t width, const T* columns, int64_t panel, T* products) {
    const T* rows = Rows(table, width);
    Product(d_, Scalars<T>{rows, width, 1}, {columns, panel}, rows_, width, panel, Start::kZero, {products, panel});
  }

  // columns[c, w] += sum over rows of table(r, c) * factors[r, w]
  void AddColumns(const Table<2>& table, int64_t width, const T* factors, int64_t panel, T* columns) {
    const T* rows = Rows(table, width);
    Product(d_, Scalars<T>{rows, 1, width}, {factors, panel}, width, rows_, panel, Start::kMemory, {columns, panel});
  }

  // d_table[r, :] += sum over lanes of factors[r, w] * lane_rows[w, :]
  void AddRows(const PanelArrays<T>& panel, const T* factors, const T* lane_rows, int64_t width, T* d_table,
               int64_t batch_stride, int64_t head_stride) {
    if (!d_table) return;
    const int64_t kv_head = panel.head / (shape_.q_heads / shape_.kv_heads);
    Product(d_, Scalars<T>{factors, panel.panel, 1}, {lane_rows, width}, rows_, panel.used, width, Start::kMemory,
            {d_table + panel.b * batch_stride + kv_head * head_stride, width});
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
  const ContentBias& bias_;
  const Shape& shape_;
  const attention::Cut& cut_;
  int64_t rows_;
  Offsets offsets_;
  const attention::HookScratch<T>& scratch_;
  bool backward_;
  Gradient gradient_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
