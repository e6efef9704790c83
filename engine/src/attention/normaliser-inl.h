// Weights from a log-sum-exp alone: p = exp(s - lse). Far from 0 the log-sum-exp is rounded so coarsely that the logarithm of
// the sum is lost in it (a row whose biases are all as low as numbers go has n weights of 1 then, not of 1/n). Such rows get
// their reference and their sum anew, by one more walk along their keys.
#if defined(HEED_ATTENTION_NORMALISER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_NORMALISER_INL_H_
#undef HEED_ATTENTION_NORMALISER_INL_H_
#else
#define HEED_ATTENTION_NORMALISER_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "attention/mask-inl.h"
#include "attention/panel-inl.h"
#include "attention/scores-inl.h"
#include "attention/softmax_state-inl.h"
#include "hwy/highway.h"
#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class Normaliser {
 public:
  // Arrays of [panel]. minus_lse: what is subtracted from the scores, base 2.
  Normaliser(T* minus_lse, T* reference, T* share) : minus_lse_(minus_lse), reference_(reference), share_(share) {}

  // The log-sum-exp of lane w in nats; -inf: the lane has no weights.
  void Set(int64_t w, T lse) {
    minus_lse_[w] =
        lse == -std::numeric_limits<T>::infinity() ? lse : static_cast<T>(static_cast<double>(lse) * -std::numbers::log2e);
  }

  // After Set of all lanes and scores.Begin: walks the keys of the panel where that is needed. tile: room for a tile of scores.
  void Prepare(const Panel& panel, int64_t tile_keys, attention::Lanes<T>& lanes, Scores<T>& scores,
               attention::ScoreScratch<T>& scratch, T* tile) {
    shared_ = std::any_of(minus_lse_, minus_lse_ + panel.used(), Far);
    if (!shared_) return;
    const SoftmaxState<T> state{reference_, share_, nullptr, panel.width, 0, nullptr, nullptr};
    state.Reset();
    const auto ahead = [&](const TilePlace&) -> simd::Ahead& { return scratch.ahead; };
    ForEachTile(panel, tile_keys, panel.range.reach, lanes, [&](const Strips& strips) HWY_ATTR {
      scores.FillTile(d_, strips, tile, ahead);
      TakeTile(d_, state, strips, tile);
    });
    for (int64_t w = 0; w < panel.width; ++w) {
      const bool far = w < panel.used() && Far(minus_lse_[w]) && share_[w] != 0;
      if (far) minus_lse_[w] = reference_[w];
      share_[w] = far ? T{1} / share_[w] : T{1};
    }
  }

  // The weight of a score in the lanes from w on.
  HWY_INLINE hn::Vec<hn::ScalableTag<T>> Weight(const T* score, int64_t w) const {
    const auto p = PowerOfTwo(d_, hn::Add(hn::Load(d_, score), hn::Load(d_, minus_lse_ + w)));
    return shared_ ? hn::Mul(p, hn::Load(d_, share_ + w)) : p;
  }

 private:
  // Where half the spacing of numbers exceeds 2^-14: the error of a weight then nears what rounding does to its score.
  static bool Far(T minus_lse) {
    constexpr int kExponent = std::numeric_limits<T>::digits - 14;
    return std::isfinite(minus_lse) && std::abs(minus_lse) >= static_cast<T>(int64_t{1} << kExponent);
  }

  static constexpr hn::ScalableTag<T> d_{};
  T *minus_lse_, *reference_, *share_;
  bool shared_ = false;  // some lane takes its share of a sum of its own
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
