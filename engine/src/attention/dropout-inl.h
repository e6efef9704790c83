// Dropout of a tile of weights, decided by counters (simd/philox-inl.h).
#if defined(HEED_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_DROPOUT_INL_H_
#undef HEED_ATTENTION_DROPOUT_INL_H_
#else
#define HEED_ATTENTION_DROPOUT_INL_H_
#endif

#include <algorithm>

#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "hwy/highway.h"
#include "simd/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline DropoutStream StreamOf(const Dropout& dropout, const attention::DropoutThreshold& threshold, int64_t b, int64_t h) {
  return {.seed = dropout.seed,
          .batch = static_cast<uint32_t>(b + dropout.batch_offset),
          .head = static_cast<uint32_t>(h + dropout.first_head),
          .threshold = threshold.of_65536,
          .first_query = dropout.first_query,
          .first_key = dropout.first_key};
}

// Calls visit_lanes(w) for the vectors of lanes of a tile, and what that returns as visit(j, dropped) for their keys; dropped
// is true where the weights of key j go. Eight keys share a draw, from an index on that is a multiple of eight: a tile begins
// with one of the call's keys that is, but the call's first key need not be.
template <class D, class VisitLanes>
HWY_INLINE void ForEachDropped(D d, const DropoutStream& stream, const TilePlace& place, const VisitLanes& visit_lanes) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = stream.first_key % attention::kDropoutKeys;
  for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes) {
    const auto visit = visit_lanes(w);
    for (int64_t j = -first; j < place.keys; j += attention::kDropoutKeys) {
      hn::Mask<D> dropped[attention::kDropoutKeys];
      DroppedMasks(d, stream, stream.first_query + place.query + w, stream.first_key + place.key + j, dropped);
      const int64_t count = std::min(attention::kDropoutKeys, place.keys - j);
      for (int64_t m = std::max<int64_t>(0, -j); m < count; ++m) visit(j + m, dropped[m]);
    }
  }
}

// Sets dropped weights to 0. Kept ones are scaled with the whole output, once.
template <class D, class T>
void DropWeights(D d, const DropoutStream& stream, const TilePlace& place, T* weights) {
  ForEachDropped(d, stream, place, [&](int64_t w) HWY_ATTR {
    return [&, column = weights + w](int64_t j, hn::Mask<D> dropped) HWY_ATTR {
      T* at = column + j * place.panel;
      hn::Store(hn::IfThenZeroElse(dropped, hn::Load(d, at)), d, at);
    };
  });
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
