// The weights of a panel written out, for those who ask: p = exp(s - lse) from the log-sum-exp of the forward pass.
#if defined(HEED_ATTENTION_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_WEIGHTS_INL_H_
#undef HEED_ATTENTION_WEIGHTS_INL_H_
#else
#define HEED_ATTENTION_WEIGHTS_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <span>

#include "attention/normaliser-inl.h"
#include "attention/panel-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class WeightsPanel {
 public:
  WeightsPanel(const attention::WeightsProblem<T>& problem, attention::ForwardScratch<T>& scratch,
               std::span<PositionHook<T>* const> hooks)
      : problem_(problem),
        scratch_(scratch),
        hooks_(hooks),
        scores_(problem, scratch, hooks),
        normaliser_(problem, scratch.lanes, scratch.minus_max, scratch.weighted, scratch.largest, scratch.sum) {}

  // Panel `index` of the chosen rows, for the chosen head `slot`.
  void Run(int64_t b, int64_t slot, int64_t index) {
    const attention::Cut& cut = problem_.cut;
    const Shape& shape = problem_.plan.shape();
    const int64_t head = problem_.heads(slot), first = index * cut.panel;
    const int64_t count = std::min(cut.panel, problem_.rows.extent[0] - first);
    for (int64_t x = 0; x < count; ++x)
      for (int64_t j = 0; j < shape.kv_len; ++j) problem_.weights(b, slot, first + x, j) = T{0};
    // Chosen rows need not be neighbours: each distinct panel of the plan is walked once for the rows that lie in it.
    int64_t done = -1;
    for (int64_t x = 0; x < count; ++x) {
      const int64_t panel = problem_.rows(first + x) / cut.panel;
      if (panel == done) continue;
      done = panel;
      RunPanel(b, head, slot, panel, first, count);
    }
  }

 private:
  void RunPanel(int64_t b, int64_t head, int64_t slot, int64_t index, int64_t first, int64_t count) {
    panel_ = MakePanel(problem_.plan, problem_.cut, b, head, index, scratch_.lanes);
    const attention::KeyRange& reach = panel_.range.reach;
    if (reach.empty()) return;
    const Shape& shape = problem_.plan.shape();
    T *lse = scratch_.minus_max, *correction = scratch_.weighted;
    for (int64_t w = 0; w < panel_.count; ++w) lse[w] = problem_.lse(b, head, panel_.begin + w);
    HideRowsWithoutWeights(panel_, lse, scratch_.lanes);
    scores_.Begin(panel_, head / (shape.q_heads / shape.kv_heads), {0, shape.kv_len});
    const PanelArrays<T> arrays{.b = b,
                                .head = head,
                                .panel = panel_.width,
                                .used = panel_.used(),
                                .blind = scratch_.lanes.uniform | scratch_.lanes.idle,
                                .queries = scratch_.queries,
                                .output = scratch_.output};
    for (PositionHook<T>* hook : hooks_) hook->Begin(arrays);
    scores_.Survey(panel_, problem_.cut.tile, reach, scratch_.scores);
    std::fill(lse + panel_.count, lse + panel_.width, -std::numeric_limits<T>::infinity());
    std::fill_n(correction, panel_.width, T{0});
    normaliser_.Set(panel_.width);
    normaliser_.Prepare(panel_, problem_.cut.tile, scores_, scratch_.scores);
    scores_.sight().ForEachTile(panel_, problem_.cut.tile, reach, [&](const TileSight& tile) HWY_ATTR {
      for (const StripSight& strip : tile.strips()) Take(b, slot, first, count, strip);
    });
  }

  void Take(int64_t b, int64_t slot, int64_t first, int64_t count, const StripSight& strip) {
    if (strip.seen == Seen::kNone) return;
    const TilePlace& place = strip.place;
    scores_.Fill(strip, scratch_.scores);
    if (strip.seen == Seen::kSome) scores_.Mask(place, -std::numeric_limits<T>::infinity(), scratch_.scores);
    Exponentiate(place);
    for (int64_t x = 0; x < count; ++x) {
      const int64_t w = problem_.rows(first + x) - panel_.begin;
      if (w < place.lane_begin || w >= place.used_end()) continue;
      for (int64_t j = 0; j < place.keys; ++j)
        problem_.weights(b, slot, first + x, place.key + j) = scratch_.scores[j * place.panel + w];
    }
  }

  void Exponentiate(const TilePlace& place) {
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t j = 0; j < place.keys; ++j)
      for (int64_t w = place.lane_begin; w < place.lane_end; w += step) {
        T* at = scratch_.scores + j * place.panel + w;
        hn::Store(normaliser_.At(w).Weight(at), d_, at);
      }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::WeightsProblem<T>& problem_;
  attention::ForwardScratch<T>& scratch_;
  std::span<PositionHook<T>* const> hooks_;
  Scores<T> scores_;
  Normaliser<T> normaliser_;
  Panel panel_{};
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
