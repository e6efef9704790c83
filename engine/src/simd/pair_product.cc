// AVX512-BF16. Highway's targets do not tell this extension apart, so its instructions stand here.
#include "simd/pair_product.h"

#include <atomic>

#include "heed/machine.h"
#include "hwy/base.h"

namespace heed::simd {

constinit std::atomic<bool> decided_on_pairs = false, pairs_in_use = false;

bool HasPairProducts() {
#if HWY_ARCH_X86_64
  static const bool has = __builtin_cpu_supports("avx512bf16") != 0;
  return has;
#else
  return false;
#endif
}

bool DecideOnPairs() {
  UsePairProducts(MachineInUse().pair_instruction);
  return pairs_in_use.load(std::memory_order_relaxed);
}

void UsePairProducts(bool use) {
  pairs_in_use.store(use && HasPairProducts(), std::memory_order_relaxed);
  decided_on_pairs.store(true, std::memory_order_release);
}

}  // namespace heed::simd

#if HWY_ARCH_X86_64
#include <immintrin.h>

#include <cstring>

HWY_PUSH_ATTRIBUTES("avx,avx2,fma,avx512f,avx512vl,avx512bw,avx512dq,avx512bf16")
namespace heed::simd {
namespace {

constexpr int64_t kLanes = 16;
// See simd/tile-inl.h.
constexpr int kRows = 6, kVectors = 4;

HWY_INLINE __m512bh Pairs(__m512i bits) {
#if defined(__clang__) && __clang_major__ <= 16
  asm("" : "+v"(bits));  // clang 16 recurses until its stack is full where it sees that these are a repeated number
#endif
  __m512bh pairs;
  std::memcpy(&pairs, &bits, sizeof(pairs));
  return pairs;
}

HWY_INLINE __m512i Broadcast(const uint16_t* pair) {
  int32_t bits;
  std::memcpy(&bits, pair, sizeof(bits));
  return _mm512_set1_epi32(bits);
}

template <int R, int V>
HWY_INLINE void RegisterTile(PairScalars a, PairVectors b, int64_t steps, const PairTarget& c) {
  __m512 acc[R][V];
  const bool starts = c.accumulates && c.factor == 1;
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) acc[r][v] = starts ? _mm512_loadu_ps(c.data + r * c.stride + v * kLanes) : _mm512_setzero_ps();
  // Rows in fours: three strides then address all of them, and no address is computed within the loop.
  const uint16_t* fours[(R + 3) / 4];
#pragma GCC unroll 4
  for (int i = 0; i < (R + 3) / 4; ++i) fours[i] = static_cast<const uint16_t*>(a.data) + 4 * i * a.row_stride;
  const auto* vectors = static_cast<const uint32_t*>(b.data);
  for (int64_t step = 0; step + 2 <= steps; step += 2) {
    __m512bh row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) row[v] = Pairs(_mm512_loadu_si512(vectors + v * kLanes));
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m512bh factor = Pairs(Broadcast(fours[r / 4] + r % 4 * a.row_stride));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = _mm512_dpbf16_ps(acc[r][v], row[v], factor);
    }
#pragma GCC unroll 4
    for (const uint16_t*& four : fours) four += a.step_stride;
    vectors += b.stride;
  }
  if (steps % 2 != 0) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m512bh factor = Pairs(_mm512_set1_epi32(fours[r / 4][r % 4 * a.row_stride]));
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v)
        acc[r][v] = _mm512_dpbf16_ps(acc[r][v], Pairs(_mm512_loadu_si512(vectors + v * kLanes)), factor);
    }
  }
  const __m512 scale = _mm512_set1_ps(c.factor);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      float* at = c.data + r * c.stride + v * kLanes;
      if (c.factor == 1) {
        _mm512_storeu_ps(at, acc[r][v]);
      } else {
        _mm512_storeu_ps(
            at, c.accumulates ? _mm512_fmadd_ps(acc[r][v], scale, _mm512_loadu_ps(at)) : _mm512_mul_ps(acc[r][v], scale));
      }
    }
}

// All rows of one column group of V vectors: full register tiles, then the remaining rows in halves.
template <int V>
HWY_NOINLINE void ColumnGroup(PairScalars a, PairVectors b, int64_t rows, int64_t steps, PairTarget c, Ahead& ahead) {
  const auto advance = [&](int64_t by) {
    ahead.between();
    a.data = static_cast<const uint16_t*>(a.data) + by * a.row_stride;
    c.data += by * c.stride;
    rows -= by;
  };
  // One vector of columns leaves room for twice the rows, which the latency of the instruction needs.
  constexpr int kTall = V == 1 ? 2 * kRows : kRows;
  while (rows >= kTall) {
    RegisterTile<kTall, V>(a, b, steps, c);
    advance(kTall);
  }
  if (kTall > 8 && rows >= 8) {
    RegisterTile<8, V>(a, b, steps, c);
    advance(8);
  }
  if (rows >= 4) {
    RegisterTile<4, V>(a, b, steps, c);
    advance(4);
  }
  if (rows >= 2) {
    RegisterTile<2, V>(a, b, steps, c);
    advance(2);
  }
  if (rows >= 1) RegisterTile<1, V>(a, b, steps, c);
}

}  // namespace

void MultiplyPairs(PairScalars a, PairVectors b, PairSize size, PairTarget c, Ahead& ahead) {
  const auto advance = [&](int64_t vectors) {
    b.data = static_cast<const uint32_t*>(b.data) + vectors * kLanes;
    c.data += vectors * kLanes;
    size.width -= vectors * kLanes;
  };
  while (size.width >= kVectors * kLanes) {
    ColumnGroup<kVectors>(a, b, size.rows, size.steps, c, ahead);
    advance(kVectors);
  }
  if (size.width >= 2 * kLanes) {
    ColumnGroup<2>(a, b, size.rows, size.steps, c, ahead);
    advance(2);
  }
  if (size.width >= kLanes) ColumnGroup<1>(a, b, size.rows, size.steps, c, ahead);
}

namespace {

// Pairs of two rows: the even one in the lower halves.
HWY_INLINE __m512i PairsOf(__m512 even, __m512 odd) {
  // The 16 numbers of `even`, then those of `odd`, become neighbours.
  const __m512bh both = _mm512_cvtne2ps_pbh(odd, even);
  __m512i bits;
  std::memcpy(&bits, &both, sizeof(bits));
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
                                         4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, bits);
}

HWY_INLINE void StoreRounded(__m512 row, uint16_t* to) {
  const __m256bh rounded = _mm512_cvtneps_pbh(row);
  std::memcpy(to, &rounded, sizeof(rounded));
}

}  // namespace

void RoundPairs(const float* tile, int64_t stride, int64_t rows, int64_t width, const RoundedTile& rounded) {
  for (int64_t j = 0; j < rows; j += 2) {
    const bool last = j + 1 == rows;
    const float *even = tile + j * stride, *odd = last ? even : even + stride;
    for (int64_t w = 0; w < width; w += kLanes) {
      const __m512 lower = _mm512_loadu_ps(even + w), upper = last ? _mm512_setzero_ps() : _mm512_loadu_ps(odd + w);
      if (rounded.pairs) _mm512_storeu_si512(rounded.pairs + j / 2 * stride + w, PairsOf(lower, upper));
      if (!rounded.rows) continue;
      StoreRounded(lower, rounded.rows + j * stride + w);
      if (!last) StoreRounded(upper, rounded.rows + (j + 1) * stride + w);
    }
  }
}

}  // namespace heed::simd
HWY_POP_ATTRIBUTES
#endif
