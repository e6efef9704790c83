// Sums across lanes, taken as a vector of 64 bytes takes them whatever the target's vectors are: lane x of that vector adds
// every 64th byte from x on, then halves are added until one number is left. Targets with shorter vectors hold it in parts.
#if defined(HEED_SIMD_LANE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_LANE_SUMS_INL_H_
#undef HEED_SIMD_LANE_SUMS_INL_H_
#else
#define HEED_SIMD_LANE_SUMS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How many vectors of a target make one of 64 bytes. Where a vector is one lane (HWY_SCALAR) sums have an order of their own:
// sixteen parts of it would take a loop for each.
template <class D>
constexpr int kSumParts = hn::MaxLanes(D()) == 1 ? 1 : static_cast<int>(64 / (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>)));
// Elements of them together.
template <class D>
constexpr int64_t kSumLanes = static_cast<int64_t>(hn::MaxLanes(D())) * kSumParts<D>;

#if HWY_TARGET != HWY_SCALAR
// The sum of a block of 16 bytes.
template <class D, class V>
HWY_INLINE hn::TFromD<D> SumOfBlock(D d, V v) {
  if constexpr (sizeof(hn::TFromD<D>) == sizeof(double)) {
    return hn::GetLane(hn::Add(v, hn::Reverse2(d, v)));
  } else {
    const auto halves = hn::Add(v, hn::Shuffle1032(v));
    return hn::GetLane(hn::Add(halves, hn::Reverse2(d, halves)));
  }
}

// The sum of a vector's blocks of 16 bytes.
template <class D, class V>
HWY_INLINE auto SumBlocks(D d, V v) {
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    return SumBlocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}
#endif

// The parts of a vector of 64 bytes become one vector, halves added to halves.
template <class D>
HWY_INLINE hn::Vec<D> SumParts(D, hn::Vec<D> (&parts)[kSumParts<D>]) {
#pragma GCC unroll 4
  for (int count = kSumParts<D> / 2; count > 0; count /= 2)
#pragma GCC unroll 4
    for (int x = 0; x < count; ++x) parts[x] = hn::Add(parts[x], parts[x + count]);
  return parts[0];
}

// A vector of 64 bytes that numbers are added to.
template <class D>
class LaneSums {
  using T = hn::TFromD<D>;
  static constexpr D d_{};

 public:
  LaneSums() {
    for (hn::Vec<D>& part : parts_) part = hn::Zero(d_);
  }

  HWY_INLINE hn::Vec<D>& part(int x) { return parts_[x]; }

  // add(at, part) for each part of the elements from begin to end, both multiples of 64 bytes: at: the part's first element.
  template <class Add>
  HWY_INLINE void ForEach(int64_t begin, int64_t end, const Add& add) {
    for (int64_t at = begin; at < end; at += kSumLanes<D>)
#pragma GCC unroll 4
      for (int x = 0; x < kSumParts<D>; ++x) add(at + x * static_cast<int64_t>(hn::MaxLanes(D())), parts_[x]);
  }

  HWY_INLINE T Total() {
    const hn::Vec<D> sum = SumParts(d_, parts_);
#if HWY_TARGET == HWY_SCALAR
    return hn::GetLane(sum);
#else
    return SumOfBlock(hn::CappedTag<T, 16 / sizeof(T)>(), SumBlocks(d_, sum));
#endif
  }

 private:
  hn::Vec<D> parts_[kSumParts<D>];
};

// The sum of the elements from begin to end, both multiples of 64 bytes; aligned.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE T SumOfLanesFrom(D d, const T* row, int64_t begin, int64_t end) {
  LaneSums<D> sums;
  sums.ForEach(begin, end, [&](int64_t at, hn::Vec<D>& sum) HWY_ATTR { sum = hn::Add(sum, hn::Load(d, row + at)); });
  return sums.Total();
}

// a * b + c, rounded once as products are.
template <class T>
HWY_INLINE T MulAddOne(T a, T b, T c) {
  const hn::CappedTag<T, 1> one;
  return hn::GetLane(hn::MulAdd(hn::Set(one, a), hn::Set(one, b), hn::Set(one, c)));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
