// Products of pairs (simd/pair_product.h) for every target: by the processor's own instruction, or by two fused multiply-adds a
// pair that give the same bits.
#if defined(HEED_SIMD_PAIR_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_PAIR_PRODUCT_INL_H_
#undef HEED_SIMD_PAIR_PRODUCT_INL_H_
#else
#define HEED_SIMD_PAIR_PRODUCT_INL_H_
#endif

#include <cstdint>
#include <cstring>

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
class DenormalsAsZero {
 public:
#if HWY_ARCH_X86
  DenormalsAsZero() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | kDenormalsAreZero | kFlushToZero); }
  ~DenormalsAsZero() { _mm_setcsr(saved_); }
#else
  DenormalsAsZero() = default;
#endif
  DenormalsAsZero(const DenormalsAsZero&) = delete;
  DenormalsAsZero& operator=(const DenormalsAsZero&) = delete;

 private:
#if HWY_ARCH_X86
  static constexpr unsigned kDenormalsAreZero = 0x0040, kFlushToZero = 0x8000;
  unsigned saved_;
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

// Two neighbours, or the last of an odd number of steps and 0.
inline uint32_t LoadPair(const uint16_t* at, bool whole) {
  uint32_t pair = *at;
  if (whole) std::memcpy(&pair, at, sizeof(pair));
  return pair;
}

// See RegisterTile in simd/tile-inl.h. Odd and even steps take turns, so that 16 registers hold what they need.
template <int R, int V, class D>
HWY_INLINE void PairRegisterTile(D d, simd::PairScalars a, simd::PairVectors b, int64_t steps, const simd::PairTarget& c) {
  const hn::RebindToUnsigned<D> du;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[R][V];
  const bool starts = c.accumulates && c.factor == 1;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = starts ? hn::Load(d, c.data + r * c.stride + v * lanes) : hn::Zero(d);
  for (int64_t step = 0; step < steps; step += 2) {
    const bool whole = step + 1 < steps;
    hn::Vec<D> row[V];
    const auto add = [&](const auto& half) HWY_ATTR {
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) row[v] = half(hn::Load(du, b.data + v * lanes));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const hn::Vec<D> factor = half(hn::Set(du, LoadPair(a.data + r * a.row_stride, whole)));
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(factor, row[v], acc[r][v]);
      }
    };
    add([&](auto pairs) HWY_ATTR { return OddSteps(d, pairs); });
    add([&](auto pairs) HWY_ATTR { return EvenSteps(d, pairs); });
    a.data += a.step_stride;
    b.data += b.stride;
  }
  const hn::Vec<D> scale = hn::Set(d, c.factor);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* at = c.data + r * c.stride + v * lanes;
      if (c.factor == 1) {
        hn::Store(acc[r][v], d, at);
      } else {
        hn::Store(c.accumulates ? hn::MulAdd(acc[r][v], scale, hn::Load(d, at)) : hn::Mul(acc[r][v], scale), d, at);
      }
    }
}

template <int V, class D>
HWY_NOINLINE void PairColumnGroup(D d, simd::PairScalars a, simd::PairVectors b, int64_t rows, int64_t steps, simd::PairTarget c,
                                  simd::Ahead& ahead) {
  const auto advance = [&](int64_t by) {
    ahead.between();
    a.data += by * a.row_stride;
    c.data += by * c.stride;
    rows -= by;
  };
  while (rows >= kTileRows) {
    PairRegisterTile<kTileRows, V>(d, a, b, steps, c);
    advance(kTileRows);
  }
  if (rows >= 4) {
    PairRegisterTile<4, V>(d, a, b, steps, c);
    advance(4);
  }
  for (; rows >= 1; advance(1)) PairRegisterTile<1, V>(d, a, b, steps, c);
}

// C = start + factor * A * B. width: a multiple of the widest vector's lanes.
inline void PairProduct(simd::PairScalars a, simd::PairVectors b, simd::PairSize size, simd::PairTarget c,
                        simd::Ahead& ahead) {
#if HEED_SIMD_AVX512
  if (simd::UsesPairProducts()) {
    simd::MultiplyPairs(a, b, size, c, ahead);
    return;
  }
#endif
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const DenormalsAsZero zero;
  const auto advance = [&](int64_t vectors) {
    b.data += vectors * lanes;
    c.data += vectors * lanes;
    size.width -= vectors * lanes;
  };
  while (size.width >= kTileVectors * lanes) {
    PairColumnGroup<kTileVectors>(d, a, b, size.rows, size.steps, c, ahead);
    advance(kTileVectors);
  }
  for (; size.width >= lanes; advance(1)) PairColumnGroup<1>(d, a, b, size.rows, size.steps, c, ahead);
}

// The bits of bfloat16, in the lower halves: to nearest, ties to even, NaN quiet, what is smaller than the smallest normal number
// 0 with its sign.
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
      const auto narrow = [&](auto wide) HWY_ATTR {
        return hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<decltype(d)>(), wide));
      };
      hn::StoreU(narrow(even), d16, rounded.rows + at);
      if (!last) hn::StoreU(narrow(odd), d16, rounded.rows + at + stride);
    }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
