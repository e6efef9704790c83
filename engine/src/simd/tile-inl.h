// Register tiles: the product kernel that every matrix product of the engine runs through. The only home of unrolled
// accumulators.
#if defined(HEED_SIMD_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_TILE_INL_H_
#undef HEED_SIMD_TILE_INL_H_
#else
#define HEED_SIMD_TILE_INL_H_
#endif

#include <algorithm>

#include "hwy/highway.h"
#include "simd/ahead.h"
#include "simd/capabilities-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows and vectors of accumulators held in registers. 32 registers: 6 x 4 leaves room for four vectors of B and a broadcast;
// 16 registers: 6 x 2. A wider and flatter tile needs more broadcasts per FMA, a taller one more vector loads.
#if HEED_SIMD_REGISTERS_32
constexpr int kTileRows = 6, kTileVectors = 4;
#else
constexpr int kTileRows = 6, kTileVectors = 2;
#endif

// A as scalars: element (row, step) lies at data[row * row_stride + step * step_stride].
template <class T>
struct Scalars {
  const T* data;
  int64_t row_stride, step_stride;
};

// B and C as rows of vectors, aligned, `stride` elements apart.
template <class T>
struct VectorRows {
  T* data;
  int64_t stride;
};

// C, what its accumulators start from: zero, or what it holds; and what they are multiplied with in the end. Where they start
// from what C holds, a factor multiplies the products alone.
template <class T>
struct Target {
  T* data;
  int64_t stride;
  bool accumulates;
  T factor = 1;
};
template <class T>
Target<T> Fresh(T* data, int64_t stride) {
  return {data, stride, false};
}
template <class T>
Target<T> AddedTo(T* data, int64_t stride) {
  return {data, stride, true};
}

// The order in which a product takes its steps: one after the other, or pair by pair, the odd one first.
enum class Steps { kSingle, kPairs };
inline int64_t StepAt(Steps steps, int64_t x, int64_t count) { return steps == Steps::kPairs && (x | 1) < count ? x ^ 1 : x; }

// C[rows, width] = start + A[rows, steps] * B[steps, width]; width in elements.
struct ProductSize {
  int64_t rows, steps, width;
};

// C[r, v] = start + sum over steps of A(r, step) * B[step, v] for R rows and V vectors. GCC keeps the accumulators in memory
// unless the loops over them are unrolled by force, which costs a factor of 2.5.
template <int R, int V, Steps kSteps, class D, class T, class Ahead>
HWY_INLINE void RegisterTile(D d, Scalars<T> a, VectorRows<const T> b, int64_t steps, Target<T> c, Ahead& ahead) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> acc[R][V];
  if (c.accumulates && c.factor == 1) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = hn::Load(d, c.data + r * c.stride + v * lanes);
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = hn::Zero(d);
  }
  // Rows in fours: three strides then address all of them, and no address is computed within the loop.
  const T* fours[(R + 3) / 4];
#pragma GCC unroll 4
  for (int i = 0; i < (R + 3) / 4; ++i) fours[i] = a.data + 4 * i * a.row_stride;
  const T* HWY_RESTRICT vectors = b.data;
  auto place = ahead.place();
  const auto move = [&](int64_t steps_on) HWY_ATTR {
#pragma GCC unroll 4
    for (const T*& four : fours) four += steps_on * a.step_stride;
    vectors += steps_on * b.stride;
  };
  const auto take = [&](int64_t then) HWY_ATTR {
    hn::Vec<D> row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) row[v] = hn::Load(d, vectors + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const hn::Vec<D> factor = hn::Set(d, fours[r / 4][r % 4 * a.row_stride]);
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) acc[r][v] = hn::MulAdd(factor, row[v], acc[r][v]);
    }
    ahead.step(place);
    move(then);
  };
  int64_t step = 0;
  if constexpr (kSteps == Steps::kPairs) {
    // From the odd step of a pair back to the even one, and on to the next odd one. A last step without another is taken below.
    move(1);
    for (; step + 2 <= steps; step += 2) {
      take(-1);
      take(3);
    }
    move(-1);
  }
  for (; step < steps; ++step) take(1);
  ahead.set_place(place);
  if (c.factor != 1) {
    const auto scale = hn::Set(d, c.factor);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) {
        const T* before = c.data + r * c.stride + v * lanes;
        acc[r][v] = c.accumulates ? hn::MulAdd(acc[r][v], scale, hn::Load(d, before)) : hn::Mul(acc[r][v], scale);
      }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) hn::Store(acc[r][v], d, c.data + r * c.stride + v * lanes);
}

// All rows of one column group of V vectors: full register tiles, then the remaining rows in halves.
template <int V, Steps kSteps, class D, class T, class Ahead>
HWY_NOINLINE void ColumnGroup(D d, Scalars<T> a, VectorRows<const T> b, int64_t rows, int64_t steps, Target<T> c,
                              Ahead& ahead) {
  const auto advance = [&](int64_t by) {
    ahead.between();
    a.data += by * a.row_stride;
    c.data += by * c.stride;
    rows -= by;
  };
  // One vector of columns leaves room for twice the rows, which the latency of an FMA needs where two are issued a cycle.
  constexpr int kRows = V == 1 ? 2 * kTileRows : kTileRows;
  while (rows >= kRows) {
    RegisterTile<kRows, V, kSteps>(d, a, b, steps, c, ahead);
    advance(kRows);
  }
  if (kRows > 8 && rows >= 8) {
    RegisterTile<8, V, kSteps>(d, a, b, steps, c, ahead);
    advance(8);
  }
  if (rows >= 4) {
    RegisterTile<4, V, kSteps>(d, a, b, steps, c, ahead);
    advance(4);
  }
  if (rows >= 2) {
    RegisterTile<2, V, kSteps>(d, a, b, steps, c, ahead);
    advance(2);
  }
  if (rows >= 1) RegisterTile<1, V, kSteps>(d, a, b, steps, c, ahead);
}

// So many columns in what products compute at once at least: a vector or, of the widest, half of one. A half takes half of the
// time of a whole on processors that have 32 bytes a unit, and never more.
template <class D>
HWY_INLINE int64_t ProductWidth(D d, int64_t columns) {
  const bool halves = HEED_SIMD_AVX512 && hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) == 64;
  const int64_t quantum = static_cast<int64_t>(hn::Lanes(d)) / (halves ? 2 : 1);
  return (std::max<int64_t>(columns, 0) + quantum - 1) / quantum * quantum;
}

// C = start + A * B, size.width as ProductWidth makes it. ahead: what to do for memory meanwhile, see simd/ahead.h.
template <Steps kSteps = Steps::kSingle, class D, class T, class Ahead>
HWY_INLINE void Product(D d, Scalars<T> a, VectorRows<const T> b, ProductSize size, Target<T> c, Ahead& ahead) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto advance = [&](int64_t vectors) {
    b.data += vectors * lanes;
    c.data += vectors * lanes;
    size.width -= vectors * lanes;
  };
  while (size.width >= kTileVectors * lanes) {
    ColumnGroup<kTileVectors, kSteps>(d, a, b, size.rows, size.steps, c, ahead);
    advance(kTileVectors);
  }
  if (kTileVectors > 2 && size.width >= 2 * lanes) {
    ColumnGroup<2, kSteps>(d, a, b, size.rows, size.steps, c, ahead);
    advance(2);
  }
  if (size.width >= lanes) {
    ColumnGroup<1, kSteps>(d, a, b, size.rows, size.steps, c, ahead);
    advance(1);
  }
#if HEED_SIMD_AVX512
  if (size.width > 0) ColumnGroup<1, kSteps>(hn::Half<D>(), a, b, size.rows, size.steps, c, ahead);
#endif
}

template <class D, class T>
HWY_INLINE void Product(D d, Scalars<T> a, VectorRows<const T> b, ProductSize size, Target<T> c) {
  simd::NothingAhead nothing;
  Product(d, a, b, size, c, nothing);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
