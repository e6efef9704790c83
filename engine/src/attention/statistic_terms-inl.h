// What gradients of a row's statistics add to the gradients of its weights. With weights p, entropy H, largest weight m at key
// x, mean distance D and the gradients h, g, r of these three:
//   dP[j] += -h log p[j] + (j == x) g + r |distance of j|        delta += h H + g m + r D
// The derivative of -p log p is -log p - 1; a number that all weights of a row share changes no gradient of a score,
// because weights sum to 1, that of a key without a value among them. Both sides stand behind dropout: statistics are those of
// the weights before it.
#if defined(HEED_ATTENTION_STATISTIC_TERMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_STATISTIC_TERMS_INL_H_
#undef HEED_ATTENTION_STATISTIC_TERMS_INL_H_
#else
#define HEED_ATTENTION_STATISTIC_TERMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <numbers>

#include "attention/panel-inl.h"
#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class StatisticTerms {
 public:
  StatisticTerms(const attention::BackwardProblem<T>& problem, const attention::BackwardScratch<T>& scratch)
      : problem_(problem), scratch_(scratch.statistics), lanes_(scratch.lanes), present_(problem.statistics.wanted()) {}

  // Whether the call has gradients of statistics; everything else is for those that have.
  bool present() const { return present_; }

  // Takes the rows of a panel: their gradients, and what these take off minus_delta.
  void Begin(const Panel& panel, T* minus_delta) const {
    const StatisticGradients<T>& of = problem_.statistics;
    Take(panel, of.entropy, of.d_entropy, scratch_.d_entropy, minus_delta);
    Take(panel, of.max_weight, of.d_max_weight, scratch_.d_max_weight, minus_delta);
    Take(panel, of.mean_distance, of.d_mean_distance, scratch_.d_mean_distance, minus_delta);
    for (int64_t w = 0; w < panel.width; ++w) scratch_.d_entropy[w] *= -std::numbers::ln2_v<T>;
    for (int64_t w = 0; of.d_max_weight.present() && w < panel.used(); ++w)
      scratch_.largest_key[w] = RowNumber(problem_.plan, panel, lanes_, of.largest_key, w);
  }

  // The terms of a place that do not depend on its weights, where those of its scores would stand.
  void Fill(const TilePlace& place) const {
    for (int64_t j = 0; j < place.keys; ++j)
      std::fill(scratch_.terms + j * place.panel + place.lane_begin, scratch_.terms + j * place.panel + place.lane_end, T{0});
    for (int64_t w = place.lane_begin; w < place.used_end(); ++w) FillLane(place, w, scratch_.terms + w, place.panel);
  }
  // The same of one lane as a row, in whole vectors.
  const T* FillRow(const TilePlace& place, int64_t w) const {
    std::fill_n(scratch_.terms, attention::RoundUp(place.keys, attention::kLaneQuantum), T{0});
    FillLane(place, w, scratch_.terms, 1);
    return scratch_.terms;
  }

  // All terms of weights that are neighbours. factor: that of their lanes, see EntropyFactorAt.
  HWY_INLINE hn::Vec<hn::ScalableTag<T>> Of(const T* filled, hn::Vec<hn::ScalableTag<T>> p,
                                            hn::Vec<hn::ScalableTag<T>> factor) const {
    if (!problem_.statistics.d_entropy.present()) return hn::Load(d_, filled);
    const auto entropy = hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d_)), hn::Mul(factor, hn::Log2(d_, p)));
    return hn::Add(hn::Load(d_, filled), entropy);
  }
  const T* Filled(const TilePlace& place, int64_t j, int64_t w) const { return scratch_.terms + j * place.panel + w; }
  // What log2 p is multiplied by, -ln 2 times the gradient of the entropy: of the lanes from w on, and of lane w alone.
  HWY_INLINE hn::Vec<hn::ScalableTag<T>> EntropyFactorAt(int64_t w) const { return hn::Load(d_, scratch_.d_entropy + w); }
  HWY_INLINE hn::Vec<hn::ScalableTag<T>> EntropyFactorOf(int64_t w) const { return hn::Set(d_, scratch_.d_entropy[w]); }

 private:
  void Take(const Panel& panel, const View<const T, 3>& statistic, const View<const T, 3>& gradient, T* numbers,
            T* minus_delta) const {
    ReadRowNumbers(problem_.plan, panel, lanes_, gradient, T{0}, numbers);
    for (int64_t w = 0; gradient.present() && w < panel.used(); ++w)
      if (numbers[w] != 0) minus_delta[w] -= numbers[w] * RowNumber(problem_.plan, panel, lanes_, statistic, w);
  }

  void FillLane(const TilePlace& place, int64_t w, T* lane, int64_t step) const {
    if (const T distance = scratch_.d_mean_distance[w]; distance != 0)
      ForEachDistance(problem_.plan, place, w, [&](int64_t j, double far) { lane[j * step] = distance * static_cast<T>(far); });
    if (!problem_.statistics.d_max_weight.present()) return;
    const int64_t key = scratch_.largest_key[w];
    if (key >= place.key && key < place.key + place.keys) lane[(key - place.key) * step] += scratch_.d_max_weight[w];
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::BackwardProblem<T>& problem_;
  const attention::StatisticScratch<T>& scratch_;
  const attention::Lanes<T>& lanes_;
  bool present_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
