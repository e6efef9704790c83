// Transposes between rows in memory and columns of a panel. A vector of 16 bytes turns a block of four by four elements of 4
// bytes (two by two of 8); wider vectors turn as many such blocks at once, from rows one below the other.
#if defined(HEED_SIMD_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_SIMD_TRANSPOSE_INL_H_
#undef HEED_SIMD_TRANSPOSE_INL_H_
#else
#define HEED_SIMD_TRANSPOSE_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "simd/capabilities-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements of 16 bytes: a block has as many rows and columns.
template <class T>
constexpr int64_t kTransposeBlock = 16 / static_cast<int64_t>(sizeof(T));

#if HWY_TARGET != HWY_SCALAR
#if HWY_HAVE_SCALABLE
template <class T>
using TransposeTag = hn::FixedTag<T, kTransposeBlock<T>>;
#else
template <class T>
using TransposeTag = hn::ScalableTag<T>;
#endif

// The 16 bytes at `from` and, in wider vectors, those `stride` elements further on each. Where loads take masks each piece is
// one, which leaves the shuffles to the transpose: 1 % of a backward pass of 32 steps.
template <class D, class T>
HWY_INLINE hn::Vec<D> LoadPieces(D d, const T* from, int64_t stride) {
  if constexpr (hn::MaxLanes(D()) <= kTransposeBlock<T>) {
    return hn::LoadU(d, from);
  } else if constexpr (HEED_SIMD_AVX512 && hn::MaxLanes(D()) == 4 * kTransposeBlock<T>) {
    const auto before = [&](int64_t pieces)
                            HWY_ATTR { return hn::FirstN(d, static_cast<std::size_t>(pieces * kTransposeBlock<T>)); };
    auto all = hn::LoadDup128(d, from + 3 * stride);
    all = hn::IfThenElse(before(3), hn::LoadDup128(d, from + 2 * stride), all);
    all = hn::IfThenElse(before(2), hn::LoadDup128(d, from + stride), all);
    return hn::IfThenElse(before(1), hn::LoadDup128(d, from), all);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kPieces = static_cast<int64_t>(hn::MaxLanes(hn::Half<D>())) / kTransposeBlock<T>;
    return hn::Combine(d, LoadPieces(half, from + kPieces * stride, stride), LoadPieces(half, from, stride));
  }
}

// to[c * to_stride + r] = factor * from[r * from_stride + c] for as many r as a vector has lanes and the c of one block; bits
// have no factor.
template <class D, class T>
HWY_INLINE void TransposeBlocks(D d, const T* from, int64_t from_stride, T factor, T* to, int64_t to_stride) {
  const auto rows = [&](int64_t first) HWY_ATTR {
    const auto pieces = LoadPieces(d, from + first * from_stride, kTransposeBlock<T> * from_stride);
    if constexpr (hwy::IsFloat<T>()) {
      return hn::Mul(pieces, hn::Set(d, factor));
    } else {
      return pieces;
    }
  };
  if constexpr (sizeof(T) == 8) {
    const auto r0 = rows(0), r1 = rows(1);
    hn::StoreU(hn::InterleaveLower(d, r0, r1), d, to);
    hn::StoreU(hn::InterleaveUpper(d, r0, r1), d, to + to_stride);
  } else {
    const hn::Repartition<double, D> pairs;
    const auto r0 = rows(0), r1 = rows(1), r2 = rows(2), r3 = rows(3);
    const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1)),
               high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
    const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3)),
               high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * to_stride);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * to_stride);
  }
}

// Transposes rows `begin` .. of whole vectors and columns 0 .. columns - 1 of whole blocks; returns the first row left.
template <class D, class T>
HWY_INLINE int64_t TransposeRows(D d, const T* from, int64_t from_stride, int64_t begin, int64_t rows, int64_t columns,
                                 T factor, T* to, int64_t to_stride) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t r = begin;
  for (; r + lanes <= rows; r += lanes)
    for (int64_t c = 0; c < columns; c += kTransposeBlock<T>)
      TransposeBlocks(d, from + r * from_stride + c, from_stride, factor, to + c * to_stride + r, to_stride);
  return r;
}
#endif

// to[c * to_stride + r] = factor * from[r * from_stride + c] for r < rows, c < columns; neither needs alignment.
template <class T>
void Transpose(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T factor, T* to, int64_t to_stride) {
  int64_t whole_rows = 0, whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_columns = columns / kTransposeBlock<T> * kTransposeBlock<T>;
  whole_rows = TransposeRows(TransposeTag<T>(), from, from_stride, 0, rows, whole_columns, factor, to, to_stride);
  whole_rows = TransposeRows(hn::FixedTag<T, kTransposeBlock<T>>(), from, from_stride, whole_rows, rows, whole_columns, factor,
                             to, to_stride);
#endif
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      to[c * to_stride + r] = factor * from[r * from_stride + c];
}

// The same of bits; `from` may lie anywhere.
inline void TransposeBits(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t columns, uint32_t* to,
                          int64_t to_stride) {
  int64_t whole_rows = 0, whole_columns = 0;
#if HWY_TARGET != HWY_SCALAR
  whole_columns = columns / kTransposeBlock<uint32_t> * kTransposeBlock<uint32_t>;
  whole_rows = TransposeRows(TransposeTag<uint32_t>(), from, from_stride, 0, rows, whole_columns, 1U, to, to_stride);
  whole_rows = TransposeRows(hn::FixedTag<uint32_t, kTransposeBlock<uint32_t>>(), from, from_stride, whole_rows, rows,
                             whole_columns, 1U, to, to_stride);
#endif
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c)
      std::memcpy(to + c * to_stride + r, from + r * from_stride + c, sizeof(*to));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
