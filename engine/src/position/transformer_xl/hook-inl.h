// Vectors by offset with tables of their own for every head: (q[i] + bias[h]) . positions[h, c], where c is the clipped offset
// of key j from query i. The bias meets a table's rows once a call; the rest is the work of OffsetPanel.
#if defined(HEED_POSITION_TRANSFORMER_XL_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_TRANSFORMER_XL_HOOK_INL_H_
#undef HEED_POSITION_TRANSFORMER_XL_HOOK_INL_H_
#else
#define HEED_POSITION_TRANSFORMER_XL_HOOK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <variant>

#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "position/offset-inl.h"
#include "position/transformer_xl/scheme.h"
#include "simd/lane_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class TransformerXlHook final : public PositionHook<T> {
 public:
  using Call = position::TransformerXlCall<T>;
  TransformerXlHook(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call),
        scale_(static_cast<T>(place.plan.scale())),
        group_(place.cut.group),
        width_(place.cut.head_dim),
        offsets_(place.plan, call.rows()),
        scratch_(scratch) {}

  Term term() const override { return Term::kContent; }

  void Begin(const PanelArrays<T>& panel) override {
    offsets_.Begin(panel.b);
    Products(panel, panel.head, scratch_.products);
    // Heads that stand side by side: each takes the products with its own table.
    const int64_t count = panel.used / group_;
    for (int64_t x = 1; x < group_; ++x) {
      Products(panel, panel.head + x, scratch_.other);
      for (int64_t r = 0; r < call_.rows(); ++r)
        std::copy_n(scratch_.other + r * panel.panel + x * count, count, scratch_.products + r * panel.panel + x * count);
    }
    if (!call_.backward()) return;
    d_positions_ = call_.Part(call_.kPositions, panel.block, panel.b, panel.head, panel.chunk);
    d_bias_ = call_.Part(call_.kBias, panel.block, panel.b, panel.head, panel.chunk);
    gathers_ = d_positions_ || d_bias_ || panel.d_queries;
    if (gathers_) std::fill_n(scratch_.d_products, call_.rows() * panel.panel, T{0});
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    offsets_.Pick(place, scratch_.products, empty, scores);
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (gathers_) offsets_.Gather(place, d_scores, scratch_.d_products);
  }

  void End(const PanelArrays<T>& panel) override {
    if (!call_.backward()) return;
    if (panel.d_queries) offsets_.AddColumns(call_.Table(panel.head), scratch_.d_products, panel.panel, panel.d_queries);
    if (d_positions_) offsets_.AddRows(panel, scratch_.d_products, {panel.query_rows, width_}, d_positions_);
    if (call_.bias() && (d_positions_ || d_bias_)) std::visit([&](const auto& bias) { EndBias(panel, bias); }, *call_.bias());
  }

 private:
  void Products(const PanelArrays<T>& panel, int64_t head, T* products) {
    offsets_.Products(call_.Table(head), panel.queries, panel.panel, products);
    const T* constants = call_.Constants(head);
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t r = 0; constants && r < call_.rows(); ++r)
      for (int64_t w = 0; w < panel.panel; w += step) {
        T* at = products + r * panel.panel + w;
        hn::Store(hn::Add(hn::Load(d_, at), hn::Set(d_, constants[r])), d_, at);
      }
  }

  // The bias stands beside every query: it takes and gives what the sum over a row's lanes does.
  template <class V>
  void EndBias(const PanelArrays<T>& panel, const View<const V, 2>& bias) {
    const View<const T, 2> table = call_.Table(panel.head);
    for (int64_t r = 0; r < call_.rows(); ++r) {
      const T sum = scale_ * SumOfLanesFrom(d_, scratch_.d_products + r * panel.panel, 0, panel.panel);
      if (sum == 0) continue;
      for (int64_t c = 0; c < table.extent[1]; ++c) {
        if (d_positions_) d_positions_[r * width_ + c] += sum * static_cast<T>(bias(panel.head, c));
        if (d_bias_) d_bias_[c] += sum * table(r, c);
      }
    }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const Call& call_;
  T scale_;
  int64_t group_, width_;  // heads side by side in a panel; D padded
  OffsetPanel<T> offsets_;
  const typename Call::Scratch scratch_;
  // Of the panel at hand: where its gradients gather, and whether that of the products is needed.
  T *d_positions_ = nullptr, *d_bias_ = nullptr;
  bool gathers_ = false;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
