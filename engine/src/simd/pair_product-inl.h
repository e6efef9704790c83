// Products of pairs (simd/pair_product.h) for every target: by the processor's own instruction, or by two fused multiply-adds a
// pair of floats that give the same bits.
#if defined(HEED_SIMD_PAIR_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_PAIR_PRODUCT_INL_H_
#undef HEED_SIMD_PAIR_PRODUCT_INL_H_
#else
#define HEED_SIMD_PAIR_PRODUCT_INL_H_
#endif

#include <cstddef>
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
// One within another costs next to nothing: only a change of the setting takes time.
class [[maybe_unused]] DenormalsAsZero {
 public:
#if HWY_ARCH_X86
  DenormalsAsZero() : saved_(_mm_getcsr()) {
    if (changes()) _mm_setcsr(saved_ | kBoth);
  }
  ~DenormalsAsZero() {
    if (changes()) _mm_setcsr(saved_);
  }
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
  static constexpr unsigned kDenormalsAreZero = 0x0040, kFlushToZero = 0x8000, kBoth = kDenormalsAreZero | kFlushToZero;
  bool changes() const { return (saved_ & kBoth) != kBoth; }
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

// sum + a . b, pair by pair.
template <class D, class Pairs = hn::Vec<hn::RebindToUnsigned<D>>>
HWY_INLINE hn::Vec<D> AddPairs(D d, Pairs a, Pairs b, hn::Vec<D> sum) {
  const auto upper = hn::Set(hn::RebindToUnsigned<D>(), 0xFFFF0000U);
  sum = hn::MulAdd(hn::BitCast(d, hn::And(a, upper)), hn::BitCast(d, hn::And(b, upper)), sum);
  return hn::MulAdd(hn::BitCast(d, hn::ShiftLeft<16>(a)), hn::BitCast(d, hn::ShiftLeft<16>(b)), sum);
}

// Whether operands lie in pairs, see simd/pair_product.h.
HWY_INLINE bool InPairs() { return HEED_SIMD_AVX512 && simd::UsesPairProducts(); }

// A without its first rows.
inline simd::PairScalars RowsBehind(const simd::PairScalars& a, int64_t rows) {
  const int64_t by = rows * a.row_stride * static_cast<int64_t>(InPairs() ? sizeof(uint16_t) : sizeof(float));
  return {static_cast<const std::byte*>(a.data) + by, a.row_stride, a.step_stride};
}

// C = start + factor * A * B. width: a multiple of the widest vector's lanes. Who gives a factor holds a DenormalsAsZero: the
// instruction has it so by itself, and the setting takes longer than a small product.
inline void PairProduct(simd::PairScalars a, simd::PairVectors b, simd::PairSize size, simd::PairTarget c, simd::Ahead& ahead) {
#if HEED_SIMD_AVX512
  if (InPairs()) {
    simd::MultiplyPairs(a, b, size, c, ahead);
    return;
  }
#endif
  const DenormalsAsZero zero;
  Product<Steps::kPairs>(hn::ScalableTag<float>(),
                         Scalars<float>{static_cast<const float*>(a.data), a.row_stride, a.step_stride},
                         {static_cast<const float*>(b.data), b.stride}, {size.rows, size.steps, size.width},
                         {c.data, c.stride, c.accumulates, c.factor}, ahead);
}

// The numbers of a tile, of which none is a signalling NaN, become what RoundPairs makes of them.
inline void RoundInPlace(float* tile, int64_t stride, int64_t rows, int64_t width) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const auto exponent = hn::Set(du, 0x7F800000U), sign = hn::Set(du, 0x80000000U), upper = hn::Set(du, 0xFFFF0000U);
  const auto below_half = hn::Set(du, 0x7FFFU), last_bit = hn::Set(du, 1U);
  for (int64_t j = 0; j < rows; ++j)
    for (int64_t w = 0; w < width; w += static_cast<int64_t>(hn::Lanes(d))) {
      float* at = tile + j * stride + w;
      const auto value = hn::Load(d, at);
      const auto bits = hn::BitCast(du, value);
      const auto odd = hn::And(hn::ShiftRight<16>(bits), last_bit);
      const auto number = hn::RebindMask(du, hn::Eq(value, value));
      const auto rounded = hn::IfThenElse(number, hn::Add(hn::Add(bits, below_half), odd), bits);
      const auto small = hn::Eq(hn::And(bits, exponent), hn::Zero(du));
      hn::Store(hn::BitCast(d, hn::And(rounded, hn::IfThenElse(small, sign, upper))), d, at);
    }
}

// Rounds a tile: into `rounded` where operands lie in pairs (RoundPairs in simd/pair_product.h), else where it stands. width: a
// multiple of the widest vector's lanes.
inline void RoundTile(float* tile, int64_t stride, int64_t rows, int64_t width, const simd::RoundedTile& rounded) {
#if HEED_SIMD_AVX512
  if (InPairs()) {
    simd::RoundPairs(tile, stride, rows, width, rounded);
    return;
  }
#endif
  RoundInPlace(tile, stride, rows, width);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
