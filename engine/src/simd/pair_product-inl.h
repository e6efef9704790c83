// Products of pairs (simd/pair_product.h) for every target: by the processor's own instruction, or by two fused multiply-adds a
// pair that give the same bits.
#if defined(HEED_SIMD_PAIR_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_PAIR_PRODUCT_INL_H_
#undef HEED_SIMD_PAIR_PRODUCT_INL_H_
#else
#define HEED_SIMD_PAIR_PRODUCT_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "heed/element.h"
#include "hwy/highway.h"
#include "simd/capabilities-inl.h"
#include "simd/pair_product.h"
#include "simd/tile-inl.h"

#if HWY_ARCH_X86
#include <xmmintrin.h>
#endif

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// While it lives, numbers below the smallest normal one are 0, as the instruction has it whatever the program's own setting.
class [[maybe_unused]] DenormalsAsZero {
 public:
#if HWY_ARCH_X86
  DenormalsAsZero() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kDenormalsAreZero | kFlushToZero); }
  ~DenormalsAsZero() { _mm_setcsr(saved_); }
#elif HWY_ARCH_ARM_A64
  DenormalsAsZero() : saved_(Control()) { SetControl(saved_ | kFlushToZero); }
  ~DenormalsAsZero() { SetControl(saved_); }
#else
  DenormalsAsZero() = default;
#endif
  DenormalsAsZero(const DenormalsAsZero&) = delete;
  DenormalsAsZero& operator=(const DenormalsAsZero&) = delete;

 private:
#if HWY_ARCH_X86
  static constexpr unsigned kDenormalsAreZero = 0x0040, kFlushToZero = 0x8000;
  unsigned saved_;
#elif HWY_ARCH_ARM_A64
  // Of FPCR: operands and results alike.
  static constexpr uint64_t kFlushToZero = uint64_t{1} << 24;
  static uint64_t Control() {
    uint64_t control;
    asm volatile("mrs %0, fpcr" : "=r"(control)::"memory");
    return control;
  }
  static void SetControl(uint64_t control) { asm volatile("msr fpcr, %0" ::"r"(control) : "memory"); }
  uint64_t saved_;
#endif
};

// The steps of pairs as floats.
template <class D>
HWY_INLINE hn::Vec<D> EvenSteps(D d, hn::Vec<hn::RebindToUnsigned<D>> pairs) {
  return hn::BitCast(d, hn::ShiftLeft<16>(pairs));
}
template <class D>
HWY_INLINE hn::Vec<D> OddSteps(D d, hn::Vec<hn::RebindToUnsigned<D>> pairs) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::And(pairs, hn::Set(du, 0xFFFF0000U)));
}

// sum + a . b, pair by pair.
template <class D, class Pairs = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE hn::Vec<D> AddPairs(D d, Pairs a, Pairs b, hn::Vec<D> sum) {
  sum = hn::MulAdd(OddSteps(d, a), OddSteps(d, b), sum);
  return hn::MulAdd(EvenSteps(d, a), EvenSteps(d, b), sum);
}

// Where the processor has no such instruction, blocks of A and B are widened to floats, the odd step of each pair first, and
// multiplied as all others are (simd/tile-inl.h): elements of a block are widened once for 64 products.
constexpr int64_t kPairBlock = 64;

struct WidePairs {
  alignas(64) float a[kPairBlock * kPairBlock];
  alignas(64) float b[kPairBlock * kPairBlock];
  alignas(64) float sums[kPairBlock * kPairBlock];
};

// odd[x] and even[x] of `count` pairs, which lie anywhere.
inline void WidenPairs(const uint16_t* pairs, int64_t count, float* odd, float* even) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t x = 0;
  for (; x + lanes <= count; x += lanes) {
    const auto both = hn::LoadU(du, reinterpret_cast<const uint32_t*>(pairs + 2 * x));
    hn::StoreU(OddSteps(d, both), d, odd + x);
    hn::StoreU(EvenSteps(d, both), d, even + x);
  }
  for (; x < count; ++x) {
    odd[x] = ToFloat(BFloat16{pairs[2 * x + 1]});
    even[x] = ToFloat(BFloat16{pairs[2 * x]});
  }
}

// to[2p] and to[2p + 1] = the odd and the even step of pair p, for pairs that fill vectors; returns the first pair left.
inline int64_t WidenSwapped(const uint16_t* pairs, int64_t count, float* to) {
  int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; 2 * p + lanes <= 2 * count; p += lanes / 2) {
    const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, pairs + 2 * p)));
    hn::StoreU(hn::BitCast(d, hn::Shuffle2301(wide)), d, to + 2 * p);
  }
#endif
  return p;
}

// Some rows and steps of A, from the first of a pair on, as the scalars of a product. Where rows are neighbours in memory they
// stay neighbours.
inline Scalars<float> WidenScalars(const simd::PairScalars& a, int64_t rows, int64_t steps, float* wide) {
  const int64_t pairs = steps / 2;
  if (a.row_stride == 2) {
    for (int64_t p = 0; p < pairs; ++p)
      WidenPairs(a.data + p * a.step_stride, rows, wide + 2 * p * kPairBlock, wide + (2 * p + 1) * kPairBlock);
    for (int64_t r = 0; r < rows && steps % 2 != 0; ++r)
      wide[(steps - 1) * kPairBlock + r] = ToFloat(BFloat16{a.data[2 * r + pairs * a.step_stride]});
    return {wide, 1, kPairBlock};
  }
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t* row = a.data + r * a.row_stride;
    float* to = wide + r * kPairBlock;
    int64_t p = a.step_stride == 2 ? WidenSwapped(row, pairs, to) : 0;
    for (; p < pairs; ++p) {
      to[2 * p] = ToFloat(BFloat16{row[p * a.step_stride + 1]});
      to[2 * p + 1] = ToFloat(BFloat16{row[p * a.step_stride]});
    }
    if (steps % 2 != 0) to[steps - 1] = ToFloat(BFloat16{row[pairs * a.step_stride]});
  }
  return {wide, kPairBlock, 1};
}

// The same of B. Nothing is above the last of an odd number of steps.
inline VectorRows<const float> WidenVectors(const simd::PairVectors& b, int64_t steps, int64_t width, float* wide) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t step = 0; step < steps; step += 2) {
    float* odd = wide + step * kPairBlock;
    float* even = step + 1 < steps ? odd + kPairBlock : odd;
    for (int64_t w = 0; w < width; w += lanes) {
      const auto both = hn::Load(du, b.data + step / 2 * b.stride + w);
      if (even != odd) hn::Store(OddSteps(d, both), d, odd + w);
      hn::Store(EvenSteps(d, both), d, even + w);
    }
  }
  return {wide, kPairBlock};
}

// A block of C.
inline void PairBlock(const simd::PairScalars& a, const simd::PairVectors& b, const simd::PairSize& size,
                      const simd::PairTarget& c, WidePairs& wide, simd::Ahead& ahead) {
  const hn::ScalableTag<float> d;
  const bool scales = c.factor != 1;
  const DenormalsAsZero zero;
  int64_t step = 0;
  // Without a single step there is still a start to be written.
  do {
    const int64_t steps = std::min(kPairBlock, size.steps - step);
    const simd::PairScalars scalars{a.data + step / 2 * a.step_stride, a.row_stride, a.step_stride};
    const simd::PairVectors vectors{b.data + step / 2 * b.stride, b.stride};
    const Target<float> target =
        scales ? Target<float>{wide.sums, kPairBlock, step > 0} : Target<float>{c.data, c.stride, c.accumulates || step > 0};
    Product(d, WidenScalars(scalars, size.rows, steps, wide.a), WidenVectors(vectors, steps, size.width, wide.b),
            {size.rows, steps, size.width}, target, ahead);
    step += kPairBlock;
  } while (step < size.steps);
}

// What the sums of a block become.
inline void ScaleBlock(const simd::PairSize& size, const simd::PairTarget& c, const float* sums) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, c.factor);
  for (int64_t r = 0; r < size.rows; ++r)
    for (int64_t w = 0; w < size.width; w += static_cast<int64_t>(hn::Lanes(d))) {
      float* at = c.data + r * c.stride + w;
      const auto sum = hn::Load(d, sums + r * kPairBlock + w);
      hn::Store(c.accumulates ? hn::MulAdd(sum, factor, hn::Load(d, at)) : hn::Mul(sum, factor), d, at);
    }
}

// C = start + factor * A * B. width: a multiple of the widest vector's lanes.
inline void PairProduct(simd::PairScalars a, simd::PairVectors b, simd::PairSize size, simd::PairTarget c, simd::Ahead& ahead) {
#if HEED_SIMD_AVX512
  if (simd::UsesPairProducts()) {
    simd::MultiplyPairs(a, b, size, c, ahead);
    return;
  }
#endif
  WidePairs wide;
  for (int64_t w = 0; w < size.width; w += kPairBlock)
    for (int64_t r = 0; r < size.rows; r += kPairBlock) {
      const simd::PairSize block{std::min(kPairBlock, size.rows - r), size.steps, std::min(kPairBlock, size.width - w)};
      const simd::PairTarget target{c.data + r * c.stride + w, c.stride, c.accumulates, c.factor};
      PairBlock({a.data + r * a.row_stride, a.row_stride, a.step_stride}, {b.data + w, b.stride}, block, target, wide, ahead);
      if (c.factor != 1) ScaleBlock(block, target, wide.sums);
    }
}

// The bits of bfloat16, in the lower halves: to nearest, ties to even, NaN quiet, what is smaller than the smallest normal
// number 0 with its sign.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> RoundedBits(D d, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFU)), odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x00400000U)), sign = hn::And(bits, hn::Set(du, 0x80000000U));
  const auto small = hn::Eq(hn::And(bits, hn::Set(du, 0x7F800000U)), hn::Zero(du));
  const auto number = hn::RebindMask(du, hn::Eq(value, value));
  return hn::ShiftRight<16>(hn::IfThenElse(small, sign, hn::IfThenElse(number, rounded, quiet)));
}

// See RoundPairs in simd/pair_product.h. width: a multiple of the widest vector's lanes.
inline void RoundTile(const float* tile, int64_t stride, int64_t rows, int64_t width, const simd::RoundedTile& rounded) {
#if HEED_SIMD_AVX512
  if (simd::UsesPairProducts() && width % 16 == 0) {
    simd::RoundPairs(tile, stride, rows, width, rounded);
    return;
  }
#endif
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < rows; j += 2)
    for (int64_t w = 0; w < width; w += lanes) {
      const int64_t at = j * stride + w;
      const bool last = j + 1 == rows;
      const auto even = RoundedBits(d, hn::Load(d, tile + at));
      const auto odd = last ? hn::Zero(du) : RoundedBits(d, hn::Load(d, tile + at + stride));
      if (rounded.pairs) hn::StoreU(hn::Or(even, hn::ShiftLeft<16>(odd)), du, rounded.pairs + j / 2 * stride + w);
      if (!rounded.rows) continue;
      const auto narrow = [&](auto wide)
                              HWY_ATTR { return hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<decltype(d)>(), wide)); };
      hn::StoreU(narrow(even), d16, rounded.rows + at);
      if (!last) hn::StoreU(narrow(odd), d16, rounded.rows + at + stride);
    }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
