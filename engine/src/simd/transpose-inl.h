// Transposes between rows in memory and columns of a panel, four by four elements of 4 bytes (two by two of 8) at a time.
#if defined(HEED_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_TRANSPOSE_INL_H_
#undef HEED_SIMD_TRANSPOSE_INL_H_
#else
#define HEED_SIMD_TRANSPOSE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// to[c * to_stride + r] = factor * from[r * from_stride + c] for one block; rows of `from` need no alignment.
#if HWY_TARGET == HWY_SCALAR
template <class T>
constexpr int64_t kTransposeBlock = 1;

template <class T>
HWY_INLINE void TransposeBlock(const T* from, int64_t, T factor, T* to, int64_t) {
  *to = factor * *from;
}
#else
template <class T>
constexpr int64_t kTransposeBlock = 16 / static_cast<int64_t>(sizeof(T));

template <class T>
  requires(sizeof(T) == 4)
HWY_INLINE void TransposeBlock(const T* from, int64_t from_stride, T factor, T* to, int64_t to_stride) {
  const hn::FixedTag<T, 4> d;
  const hn::FixedTag<double, 2> pairs;
  const auto scale = hn::Set(d, factor);
  const auto r0 = hn::Mul(hn::LoadU(d, from), scale), r1 = hn::Mul(hn::LoadU(d, from + from_stride), scale);
  const auto r2 = hn::Mul(hn::LoadU(d, from + 2 * from_stride), scale),
             r3 = hn::Mul(hn::LoadU(d, from + 3 * from_stride), scale);
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)),
             high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3)),
             high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_stride);
}

template <class T>
  requires(sizeof(T) == 8)
HWY_INLINE void TransposeBlock(const T* from, int64_t from_stride, T factor, T* to, int64_t to_stride) {
  const hn::FixedTag<T, 2> d;
  const auto scale = hn::Set(d, factor);
  const auto r0 = hn::Mul(hn::LoadU(d, from), scale), r1 = hn::Mul(hn::LoadU(d, from + from_stride), scale);
  hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
  hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + to_stride);
}
#endif

// to[c * to_stride + r] = factor * from[r * from_stride + c] for r < rows, c < columns.
template <class T>
void Transpose(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T factor, T* to, int64_t to_stride) {
  constexpr int64_t kBlock = kTransposeBlock<T>;
  const int64_t whole_rows = rows / kBlock * kBlock, whole_columns = columns / kBlock * kBlock;
  for (int64_t r = 0; r < whole_rows; r += kBlock)
    for (int64_t c = 0; c < whole_columns; c += kBlock)
      TransposeBlock(from + r * from_stride + c, from_stride, factor, to + c * to_stride + r, to_stride);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_stride + r] = factor * from[r * from_stride + c];
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
