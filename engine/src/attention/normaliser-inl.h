// Weights from a log-sum-exp: p = exp(s - lse). It is rounded, and the more coarsely the farther it is from 0: at a few hundred
// a row of weights misses 1 by many roundings, and where all biases of a row are as low as numbers go, log(n) is lost
// altogether. The forward pass therefore leaves a correction, the factor that makes exp(s - lse) its own weights. Rows without
// one that are far from 0 get their reference and their sum anew, by one more walk along their keys.
#if defined(HEED_ATTENTION_NORMALISER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_NORMALISER_INL_H_
#undef HEED_ATTENTION_NORMALISER_INL_H_
#else
#define HEED_ATTENTION_NORMALISER_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "attention/panel-inl.h"
#include "attention/scores-inl.h"
#include "attention/softmax_state-inl.h"
#include "heed/log_sum_exp.h"
#include "hwy/highway.h"
#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class Normaliser {
 public:
  // Arrays of [panel] to work in; the first two are filled by who has the numbers, see Set.
  Normaliser(const attention::Problem& problem, const attention::Lanes<T>& lanes, T* minus_lse, T* correction, T* reference,
             T* sum)
      : problem_(problem), lanes_(lanes), minus_lse_(minus_lse), correction_(correction), reference_(reference), sum_(sum) {}

  // minus_lse holds the log-sum-exp of each lane in nats (-inf: the lane has no weights), correction what rounding took from
  // it, 0 where that is not known.
  void Set(int64_t width) {
    for (int64_t w = 0; w < width; ++w) minus_lse_[w] = MinusInPowersOfTwo(minus_lse_[w]);
  }

  // After Set of all lanes and scores.Begin: walks the keys of the panel where that is needed. tile: room for a tile of scores.
  void Prepare(const Panel& panel, int64_t tile_keys, Scores<T>& scores, T* tile) {
    uint64_t far = 0;
    for (int64_t w = 0; w < panel.width; ++w) {
      if (correction_[w] != 0) continue;
      correction_[w] = 1;
      if (w < panel.used() && Far(minus_lse_[w])) far |= uint64_t{1} << w;
    }
    if (far == 0) return;
    Walk(panel, tile_keys, scores, tile);
    for (int64_t w = 0; w < panel.used(); ++w) {
      if ((far >> w & 1) == 0 || sum_[w] == 0) continue;
      minus_lse_[w] = reference_[w];
      correction_[w] = T{1} / sum_[w];
    }
  }

  // The corrections of `width` lanes take the place of `sum`. lse: the log-sum-exps in nats, minus_max and sum: what they were
  // made of.
  static void Correct(const T* lse, const T* minus_max, T* sum, int64_t width) {
    // Beyond, the rounding of lse is no small matter and its power may not be a number.
    constexpr double kSmall = 64;
    const hn::Vec<hn::ScalableTag<T>> limit = hn::Set(d_, static_cast<T>(kSmall));
    HWY_ALIGN T minus_lse[attention::kLaneQuantum];
    for (int64_t w = 0; w < width; w += attention::kLaneQuantum) {
      for (int64_t x = 0; x < attention::kLaneQuantum; ++x) minus_lse[x] = MinusInPowersOfTwo(lse[w + x]);
      for (int64_t x = 0; x < attention::kLaneQuantum; x += static_cast<int64_t>(hn::Lanes(d_))) {
        const auto lost = hn::Sub(hn::Load(d_, minus_max + w + x), hn::Load(d_, minus_lse + x));
        const auto factor = hn::Div(PowerOfTwo(d_, lost), hn::Load(d_, sum + w + x));
        hn::Store(hn::IfThenElseZero(hn::Lt(hn::Abs(lost), limit), factor), d_, sum + w + x);
      }
    }
  }

  // What turns the scores of some lanes into weights.
  struct Lanes {
    hn::Vec<hn::ScalableTag<T>> minus_lse, correction;

    HWY_INLINE hn::Vec<hn::ScalableTag<T>> Weight(const T* score) const {
      return hn::Mul(PowerOfTwo(d_, hn::Add(hn::Load(d_, score), minus_lse)), correction);
    }
  };
  // Those from w on.
  HWY_INLINE Lanes At(int64_t w) const { return {hn::Load(d_, minus_lse_ + w), hn::Load(d_, correction_ + w)}; }
  // That of lane w in all lanes.
  HWY_INLINE Lanes Of(int64_t w) const { return {hn::Set(d_, minus_lse_[w]), hn::Set(d_, correction_[w])}; }

 private:
  // Where half the spacing of numbers reaches 2^-18 (2^6 in float): some thirty roundings of a weight.
  static bool Far(T minus_lse) {
    constexpr int kExponent = std::numeric_limits<T>::digits - 18;
    return std::isfinite(minus_lse) && std::abs(minus_lse) >= static_cast<T>(int64_t{1} << kExponent);
  }

  void Walk(const Panel& panel, int64_t tile_keys, Scores<T>& scores, T* tile) {
    const SoftmaxState<T> state{.minus_max = reference_,
                                .sum = sum_,
                                .output = nullptr,
                                .width = panel.width,
                                .rows = 0,
                                .largest = nullptr,
                                .weighted = nullptr};
    state.Reset();
    const attention::KeyRange walked = scores.walked();
    scores.Walk({0, panel.range.reach.end});
    scores.sight().ForEachTile(panel, tile_keys, panel.range.reach, [&](const TileSight& sight) HWY_ATTR {
      scores.FillTile(sight, tile, Asks::kQueue);
      TakeTile(d_, state, sight, tile);
    });
    scores.Walk(walked);
    TakeValuelessKey(problem_, panel, lanes_, state, tile);
  }

  static constexpr hn::ScalableTag<T> d_{};
  const attention::Problem& problem_;
  const attention::Lanes<T>& lanes_;
  T *minus_lse_, *correction_, *reference_, *sum_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
