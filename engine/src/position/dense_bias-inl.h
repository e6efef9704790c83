// A bias that the caller holds as an array, of any broadcast shape, with its gradient reduced to that shape.
#if defined(HEED_POSITION_DENSE_BIAS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_POSITION_DENSE_BIAS_INL_H_
#undef HEED_POSITION_DENSE_BIAS_INL_H_
#else
#define HEED_POSITION_DENSE_BIAS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <variant>

#include "attention/position_hook-inl.h"
#include "attention/problem.h"
#include "attention/scores-inl.h"
#include "hwy/highway.h"
#include "simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class DenseBias final : public PositionHook<T> {
 public:
  // d_bias: where this task adds its gradient, in the bias's extents with strides of its own (0 where the extent is 1).
  // Without data when not wanted. Pairs that share an entry are added in the order of the tiles.
  DenseBias(const Table<4>& bias, const attention::HookScratch<T>& scratch, const View<T, 4>& d_bias)
      : bias_(bias), transposed_(scratch.transposed), d_bias_(d_bias) {}

  void AddToScores(const TilePlace& place, bool empty, T* scores) override {
    std::visit([&](const auto& bias) { Gather(bias, place); }, bias_);
    AddTerms(d_, place, empty, scores,
             [&](int64_t j, int64_t w) HWY_ATTR { return NatsToBits(d_, hn::Load(d_, transposed_ + j * place.panel + w)); });
  }

  void Accumulate(const TilePlace& place, const T* d_scores) override {
    if (!d_bias_.present()) return;
    const bool per_query = d_bias_.extent[2] != 1, per_key = d_bias_.extent[3] != 1;
    if (!per_query && per_key) {
      SumOverLanes(place, d_scores);
      return;
    }
    const int64_t used = place.used_end() - place.lane_begin;
    if (used <= 0) return;
    Transpose(d_scores + place.lane_begin, place.panel, place.keys, used, T{1}, transposed_, place.keys);
    for (int64_t w = 0; w < used; ++w) {
      int64_t stride = 0;
      T* row = DenseRow(d_bias_, place, place.lane_begin + w, stride);
      const T* gradient = transposed_ + w * place.keys;
      if (!per_key) {
        T sum = 0;
        for (int64_t j = 0; j < place.keys; ++j) sum += gradient[j];
        *row += sum;
      } else if (stride == 1) {
        for (int64_t j = 0; j < place.keys; ++j) row[j] += gradient[j];
      } else {
        for (int64_t j = 0; j < place.keys; ++j) row[j * stride] += gradient[j];
      }
    }
  }

 private:
  // transposed[j, w] = the entry of lane w and key j; 0 in idle lanes.
  template <class V>
  void Gather(const View<const V, 4>& bias, const TilePlace& place) {
    std::fill_n(transposed_, place.keys * place.panel, T{0});
    int64_t stride = 0;
    const int64_t row_stride = bias.extent[2] == 1 ? 0 : bias.stride[2], used = place.used_end() - place.lane_begin;
    if (used <= 0) return;
    const V* first = DenseRow(bias, place, place.lane_begin, stride);
    if constexpr (std::is_same_v<V, T>) {
      if (place.one_head && stride == 1) {
        Transpose(first, row_stride, used, place.keys, T{1}, transposed_ + place.lane_begin, place.panel);
        return;
      }
    }
    for (int64_t w = place.lane_begin; w < place.used_end(); ++w) {
      const V* row = DenseRow(bias, place, w, stride);
      for (int64_t j = 0; j < place.keys; ++j) transposed_[j * place.panel + w] = static_cast<T>(row[j * stride]);
    }
  }

  // One entry a key for all queries.
  void SumOverLanes(const TilePlace& place, const T* d_scores) {
    int64_t stride = 0;
    T* row = DenseRow(d_bias_, place, place.lane_begin, stride);
    const int64_t step = static_cast<int64_t>(hn::Lanes(d_));
    for (int64_t j = 0; j < place.keys; ++j) {
      auto sums = hn::Zero(d_);
      for (int64_t w = place.lane_begin; w < place.lane_end; w += step)
        sums = hn::Add(sums, hn::Load(d_, d_scores + j * place.panel + w));
      row[j * stride] += hn::GetLane(hn::SumOfLanes(d_, sums));
    }
  }

  static constexpr hn::ScalableTag<T> d_{};
  const Table<4>& bias_;
  T* transposed_;
  View<T, 4> d_bias_;
};

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
