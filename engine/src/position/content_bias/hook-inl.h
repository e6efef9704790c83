// Relative positions in the content (Shaw et al. 2018): q[i].(k[j] + a[c]) and sum_j p[i,j] (v[j] + b[c]), where c is the
// clipped offset of key j from query i; and the table beside queries (content_bias/queries-inl.h).
//
// The products q.a are made once a panel, one row an offset, and picked by the offset of each pair; the weights are gathered by
// offset the same way, and multiplied with b once at the panel's end.
#if defined(HEED_POSITION_CONTENT_BIAS_HOOK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_CONTENT_BIAS_HOOK_INL_H_
#undef HEED_POSITION_CONTENT_BIAS_HOOK_INL_H_
#else
#define HEED_POSITION_CONTENT_BIAS_HOOK_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <optional>

#include "attention/position_hook-inl.h"
#include "hwy/highway.h"
#include "position/content_bias/queries-inl.h"
#include "position/content_bias/scheme.h"
#include "position/offset-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class ContentBiasHook final : public PositionHook<T> {
 public:
  using Call = position::ContentBiasCall<T>;
  ContentBiasHook(const Call& call, const typename Call::Scratch& scratch, const position::HookPlace& place)
      : call_(call),
        key_width_(place.cut.head_dim),
        value_width_(place.cut.value_dim),
        output_row_(place.output_row),
        offsets_(place.plan, call.rows()),
        scratch_(scratch),
        mass_(scratch.mass) {
    if (call.has_queries()) queries_.emplace(call, scratch, place);
  }

  Term term() const override { return Term::kContent; }

  void Begin(const PanelArrays<T>& panel) override {
    offsets_.Begin(panel.b);
    if (queries_) queries_->Begin(panel);
    if (call_.keys()) offsets_.Products(call_.keys()->rows(), panel.queries, panel.panel, scratch_.content);
    if (!call_.backward()) {
      mass_ = OutputRows(panel);
      return;
    }
    const int64_t size = offsets_.rows() * panel.panel;
    d_keys_ = call_.Part(call_.kKeys, panel.block, panel.b, panel.head, panel.chunk);
    d_values_ = call_.Part(call_.kValues, panel.block, panel.b, panel.head, panel.chunk);
    gathers_keys_ = call_.keys() && (d_keys_ || panel.d_queries);
    if (gathers_keys_) std::fill_n(scratch_.d_content, size, T{0});
    if (d_values_) std::fill_n(scratch_.mass, size, T{0});
    if (call_.values()) offsets_.Products(call_.values()->rows(), panel.d_out, panel.panel, scratch_.value_content);
  }

  void BeginTile(const TilePlace& place, const TileArrays<T>& arrays) override {
    if (queries_) queries_->BeginTile(place, arrays);
  }

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    if (call_.keys()) {
      offsets_.Pick(place, scratch_.content, empty, scores);
    } else if (empty && call_.values()) {
      AddTerms(d_, place, empty, scores, [&](int64_t, int64_t) HWY_ATTR { return hn::Zero(d_); });
    }
    if (queries_) queries_->AddToScores(place, empty && !call_.keys() && !call_.values(), scores);
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (gathers_keys_) offsets_.Gather(place, d_scores, scratch_.d_content);
    if (queries_) queries_->Accumulate(place, d_scores);
  }

  bool weighs() const override { return call_.values().has_value(); }
  void Weigh(const TilePlace& place, const T* weights) override {
    if (call_.backward() ? d_values_ != nullptr : call_.values().has_value()) offsets_.Gather(place, weights, mass_);
  }

  void AddToWeightGradient(const TilePlace& place, T* d_weights) override {
    if (call_.values()) offsets_.Pick(place, scratch_.value_content, false, d_weights);
  }

  void End(const PanelArrays<T>& panel) override {
    if (!call_.backward()) {
      // Splits are merged without their tiles.
      if (call_.values()) offsets_.AddColumns(call_.values()->rows(), OutputRows(panel), panel.panel, panel.output);
      return;
    }
    if (gathers_keys_ && panel.d_queries)
      offsets_.AddColumns(call_.keys()->rows(), scratch_.d_content, panel.panel, panel.d_queries);
    if (d_keys_) offsets_.AddRows(panel, scratch_.d_content, {panel.query_rows, key_width_}, d_keys_);
    if (d_values_) offsets_.AddRows(panel, scratch_.mass, {panel.d_out_rows, value_width_}, d_values_);
  }

 private:
  T* OutputRows(const PanelArrays<T>& panel) const { return panel.output + output_row_ * panel.panel; }

  static constexpr hn::ScalableTag<T> d_{};
  const Call& call_;
  int64_t key_width_, value_width_;  // D and Dv padded
  int64_t output_row_;
  OffsetPanel<T> offsets_;
  std::optional<ContentQueries<T>> queries_;
  const typename Call::Scratch scratch_;
  T* mass_;  // [2M+1, panel] weights by offset
  // Of the panel at hand: where its gradients gather, and whether that of the products with the keys' table is needed.
  T *d_keys_ = nullptr, *d_values_ = nullptr;
  bool gathers_keys_ = false;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
