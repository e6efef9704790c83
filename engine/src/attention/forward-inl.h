// o[i] = sum_j softmax_j(scale * q[i].k[j] + bias(i, j)) v[j]
//
// Dao 2023, "FlashAttention-2", algorithm 1, one panel of queries at a time. Differences: queries stand in SIMD lanes, so
// that the softmax is vertical; scores are in powers of two with log2(e) folded into the queries; the reference of the
// softmax follows the maximum only when it falls behind by more than 2^8. Error against double: a few eps times
// sum_j p[j] |v[j]|, held by tests/engine/accuracy_test.cc.
#if defined(HEED_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_FORWARD_INL_H_
#undef HEED_ATTENTION_FORWARD_INL_H_
#else
#define HEED_ATTENTION_FORWARD_INL_H_
#endif

#include <limits>
#include <numbers>

#include "attention/dropout-inl.h"
#include "attention/mask-inl.h"
#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/score_hook-inl.h"
#include "attention/softmax_state-inl.h"
#include "simd/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class ForwardPanel {
 public:
  ForwardPanel(const attention::ForwardProblem<T>& problem, attention::ForwardScratch<T>& scratch, ScoreHook<T>* hook)
      : problem_(problem), shape_(problem.plan.shape()), scratch_(scratch), hook_(hook) {}

  void Run(int64_t b, int64_t h, int64_t index) {
    const int64_t kv_head = h / (shape_.q_heads / shape_.kv_heads);
    panel_ = MakePanel(problem_.plan, problem_.cut, b, h, index, scratch_.lanes);
    const SoftmaxState<T> state{scratch_.minus_max, scratch_.sum, scratch_.output, panel_.width, shape_.value_dim};
    state.Reset();
    if (!panel_.range.reach.empty()) {
      keys_ = RowsOf(problem_.k, b, kv_head);
      values_ = RowsOf(problem_.v, b, kv_head);
      stream_ = StreamOf(problem_.attention.dropout, problem_.dropout, b, h);
      const T factor = static_cast<T>(problem_.plan.scale() * std::numbers::log2e);
      PackColumns(panel_, scratch_.lanes, {RowsOf(problem_.q, b, h), shape_.head_dim, factor, true}, scratch_.queries);
      ForEachTile(panel_, problem_.cut.tile, panel_.range.reach, scratch_.lanes,
                  [&](const TilePlace& place, bool masked) HWY_ATTR { Tile(state, place, masked); });
    }
    Finish(state);
  }

 private:
  void Tile(const SoftmaxState<T>& state, const TilePlace& place, bool masked) {
    Scores(place);
    if (masked) MaskTile(d_, scratch_.lanes, place, -std::numeric_limits<T>::infinity(), scratch_.minus_max, scratch_.scores);
    state.Update(d_, scratch_.scores, place.keys, place.lane_begin, place.lane_end);
    if (problem_.dropout.of_65536 != 0) DropWeights(d_, stream_, place, scratch_.scores);
    const HeadRows<const T> rows = UnitRows(values_, place.key, place.keys, shape_.value_dim, scratch_.values);
    if (masked && !AllFinite(d_, rows, place.keys, shape_.value_dim)) {
      VisibleProduct(d_, scratch_.lanes, place, rows, shape_.value_dim, scratch_.scores, scratch_.output);
    } else {
      Product(d_, Scalars<T>{rows.data, 1, rows.row_stride}, {scratch_.scores + place.lane_begin, panel_.width},
              shape_.value_dim, place.keys, place.lanes(), Start::kMemory, static_cast<const T*>(nullptr),
              {scratch_.output + place.lane_begin, panel_.width});
    }
  }

  // scores[j, w] = (scale q.k + bias) log2(e) - reference
  void Scores(const TilePlace& place) {
    const HeadRows<const T> rows = UnitRows(keys_, place.key, place.keys, shape_.head_dim, scratch_.keys);
    if (hook_) hook_->Fill(place, scratch_.minus_max, scratch_.scores);
    Product(d_, Scalars<T>{rows.data, rows.row_stride, 1}, {scratch_.queries + place.lane_begin, panel_.width}, place.keys,
            shape_.head_dim, place.lanes(), hook_ ? Start::kMemory : Start::kColumns,
            static_cast<const T*>(scratch_.minus_max + place.lane_begin), {scratch_.scores + place.lane_begin, panel_.width});
  }

  // output[c, w] becomes out[w, c], normalised; rows without a key become 0.
  void Finish(const SoftmaxState<T>& state) {
    state.Finish(d_, static_cast<T>(problem_.dropout.kept_scale));
    for (int64_t w = 0; w < panel_.count; ++w) {
      const bool active = scratch_.lanes.keys[w].active();
      if (!active) state.sum[w] = 0;
      if (problem_.lse.present())
        problem_.lse(panel_.b, panel_.h, panel_.begin + w) = active ? state.minus_max[w] : -std::numeric_limits<T>::infinity();
    }
    state.Normalise(d_);
    const HeadRows<T> out = RowsOf(problem_.out, panel_.b, panel_.h);
    if (out.element_stride == 1) {
      Transpose(static_cast<const T*>(state.output), panel_.width, shape_.value_dim, panel_.count, T{1}, out.Row(panel_.begin),
                out.row_stride);
      return;
    }
    for (int64_t w = 0; w < panel_.count; ++w)
      for (int64_t c = 0; c < shape_.value_dim; ++c)
        out.Row(panel_.begin + w)[c * out.element_stride] = state.output[c * panel_.width + w];
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::ForwardProblem<T>& problem_;
  const Shape& shape_;
  attention::ForwardScratch<T>& scratch_;
  ScoreHook<T>* hook_;
  Panel panel_{};
  HeadRows<const T> keys_{}, values_{};
  DropoutStream stream_{};
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
