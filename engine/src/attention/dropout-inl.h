// Dropout of a tile of weights, decided by counters (simd/philox-inl.h).
#if defined(HEED_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_DROPOUT_INL_H_
#undef HEED_ATTENTION_DROPOUT_INL_H_
#else
#define HEED_ATTENTION_DROPOUT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "hwy/highway.h"
#include "simd/philox-inl.h"
#include "simd/tuning.h"

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
// with one of the call's keys that is, but the call's first key need not be. stream: of the tile's head, or of the call's first
// one where heads stand side by side.
template <class D, class VisitLanes>
HWY_INLINE void ForEachDropped(D d, const DropoutStream& stream, const TilePlace& place, const VisitLanes& visit_lanes) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t first = stream.first_key % attention::kDropoutKeys;
  for (int64_t w = place.lane_begin; w < place.lane_end; w += lanes) {
    const auto visit = visit_lanes(w);
    for (int64_t j = -first; j < place.keys; j += attention::kDropoutKeys) {
      hn::Mask<D> dropped[attention::kDropoutKeys];
      const int64_t key = stream.first_key + place.key + j;
      if (place.one_head) {
        DroppedMasks(d, stream, stream.first_query + place.query + w, key, dropped);
      } else {
        DroppedMasksOf(d, stream, place.queries + w, place.heads + w, key, dropped);
      }
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

// The random bits of the weights of one query with the keys of a tile of few queries, in their order.
class DrawnRow {
 public:
  DrawnRow(const DropoutStream& stream, const TilePlace& place, int64_t w)
      : threshold_(stream.threshold), first_(stream.first_key % attention::kDropoutKeys) {
    DrawRow(stream, stream.first_query + place.queries[w], stream.first_key + place.key - first_,
            attention::DivideUp(first_ + place.keys, attention::kDropoutKeys), drawn_);
  }

  // Sets dropped weights to 0.
  template <class T>
  void Drop(int64_t keys, T* weights) const {
    for (int64_t j = 0; j < keys; ++j) weights[j] = Dropped(j) ? T{0} : weights[j];
  }
  // kept[j] = `scale`, 0 where the weight is dropped.
  template <class T>
  void KeptFactors(int64_t keys, T scale, T* kept) const {
    for (int64_t j = 0; j < keys; ++j) kept[j] = Dropped(j) ? T{0} : scale;
  }

 private:
  bool Dropped(int64_t j) const { return drawn_[first_ + j] < threshold_; }

  // A tile, the keys before it that share its first draw, and what fills a vector.
  static constexpr int64_t kRoom = simd::kFewTileKeys + 16 * attention::kDropoutKeys;

  uint32_t threshold_;
  int64_t first_;
  uint16_t drawn_[kRoom];
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
