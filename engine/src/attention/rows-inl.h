// Rows of the caller's arrays: where they lie, and moving them to and from the type of computation.
#if defined(HEED_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_ROWS_INL_H_
#undef HEED_ATTENTION_ROWS_INL_H_
#else
#define HEED_ATTENTION_ROWS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "attention/problem.h"
#include "core/operand.h"
#include "hwy/highway.h"
#include "simd/ahead.h"
#include "simd/capabilities-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows in the type of computation: row i, element c at data[i * row_stride + c * element_stride].
template <class T>
struct HeadRows {
  T* data;
  int64_t row_stride, element_stride;

  T* Row(int64_t i) const { return data + i * row_stride; }
  T* At(int64_t i, int64_t c) const { return Row(i) + c * element_stride; }
};

// Whether rows are aligned vectors without a rest, as products load and store them.
template <class T>
bool AreVectors(const HeadRows<T>& rows, int64_t width) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(rows.data) % (attention::kLaneQuantum * sizeof(T)) == 0;
  return aligned && rows.element_stride == 1 && rows.row_stride % attention::kLaneQuantum == 0 &&
         width % attention::kLaneQuantum == 0;
}

// Rows as the caller stores them. Strides in elements.
template <class Byte>
struct StoredRows {
  Byte* data;
  int64_t row_stride, element_stride;
  core::Element element;

  Byte* At(int64_t i, int64_t c) const { return data + (i * row_stride + c * element_stride) * core::BytesOf(element); }
  template <class T>
  bool Holds() const {
    return element == core::ElementOf<T>();
  }
};

// Rows of one head of one array row, from token `first` on.
template <class Byte>
StoredRows<Byte> RowsOf(const core::Operand<Byte>& operand, int64_t array_row, int64_t head, int64_t first) {
  const int64_t start = array_row * operand.stride[0] + head * operand.stride[1] + first * operand.stride[2];
  return {operand.data + start * core::BytesOf(operand.element), operand.stride[2], operand.stride[3], operand.element};
}
// Those of a batch row's queries, and of its keys.
template <class Byte>
StoredRows<Byte> QueriesOf(const attention::Plan& plan, const core::Operand<Byte>& operand, int64_t b, int64_t head) {
  return RowsOf(operand, plan.ArrayRow(b), head, plan.FirstQuery(b));
}
template <class Byte>
StoredRows<Byte> KeysOf(const attention::Plan& plan, const core::Operand<Byte>& operand, int64_t b, int64_t kv_head) {
  return RowsOf(operand, plan.ArrayRow(b), kv_head, plan.FirstKey(b));
}

// Asks for rows begin .. begin + count - 1 while the register tiles compute.
template <class Byte>
void AskFor(const StoredRows<Byte>& rows, int64_t begin, int64_t count, int64_t width, simd::Ahead& ahead) {
  const int64_t bytes = core::BytesOf(rows.element);
  if (rows.element_stride == 1) ahead.Add(rows.At(begin, 0), width * bytes, rows.row_stride * bytes, count);
}

// Asks for the rows from `begin` on, whatever lies there, one line at every step of a product.
inline simd::Stream StreamFrom(const StoredRows<const std::byte>& rows, int64_t begin, int64_t width) {
  const int64_t bytes = core::BytesOf(rows.element), stride = rows.row_stride * bytes;
  return {rows.At(begin, 0), rows.element_stride == 1 ? width * bytes : stride, stride};
}

inline float LoadNarrow(const std::byte* at, core::Element element) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return element == core::Element::kBFloat16 ? ToFloat(BFloat16{bits}) : ToFloat(Float16{bits});
}

inline void StoreNarrow(float value, core::Element element, std::byte* at) {
  const uint16_t bits = element == core::Element::kBFloat16 ? ToBFloat16(value).bits : ToFloat16(value).bits;
  std::memcpy(at, &bits, sizeof(bits));
}

#if HWY_TARGET != HWY_SCALAR
// 16-bit elements as floats; those of bfloat16 are their upper halves.
template <core::Element kElement, class D, class V16>
HWY_INLINE hn::Vec<D> Widen(D d, V16 narrow) {
  if constexpr (kElement == core::Element::kBFloat16) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), narrow)));
  } else {
    return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), narrow));
  }
}
template <core::Element kElement, class D>
HWY_INLINE hn::Vec<D> LoadWide(D d, const std::byte* from) {
  return Widen<kElement>(d, hn::LoadU(hn::Rebind<uint16_t, D>(), reinterpret_cast<const uint16_t*>(from)));
}
#endif

#if HWY_TARGET != HWY_SCALAR
// Calls step(d, c) for the elements c .. that a vector of d takes, first for whole vectors, then for what is left in shorter
// ones, until it says false; returns the first element not taken.
template <class Step>
HWY_INLINE int64_t ForVectors(int64_t count, const Step& step) {
  int64_t c = 0;
  const auto walk = [&](auto d) HWY_ATTR {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    while (c + lanes <= count && step(d, c)) c += lanes;
  };
  walk(hn::ScalableTag<float>());
  walk(hn::CappedTag<float, 8>());
  walk(hn::CappedTag<float, 4>());
  return c;
}
#endif

inline void WidenRow(const std::byte* from, core::Element element, int64_t count, float* to) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const bool brain = element == core::Element::kBFloat16;
  c = ForVectors(count, [&](auto d, int64_t begin) HWY_ATTR {
    const std::byte* at = from + 2 * begin;
    hn::StoreU(brain ? LoadWide<core::Element::kBFloat16>(d, at) : LoadWide<core::Element::kFloat16>(d, at), d, to + begin);
    return true;
  });
#endif
  for (; c < count; ++c) to[c] = LoadNarrow(from + 2 * c, element);
}

// Elements of rows begin .. begin + count - 1 in the type of computation: the caller's own where they have it, else a copy in
// `scratch`, `width` elements a row. unit: whether neighbouring elements must be neighbours in memory.
template <class T>
HeadRows<const T> Native(const StoredRows<const std::byte>& rows, int64_t begin, int64_t count, int64_t width, bool unit,
                         T* scratch) {
  if (rows.template Holds<T>()) {
    const HeadRows<const T> own{reinterpret_cast<const T*>(rows.At(begin, 0)), rows.row_stride, rows.element_stride};
    if (own.element_stride == 1 || width == 1) return {own.data, own.row_stride, 1};
    if (!unit) return own;
    for (int64_t j = 0; j < count; ++j)
      for (int64_t c = 0; c < width; ++c) scratch[j * width + c] = own.Row(j)[c * own.element_stride];
    return {scratch, width, 1};
  }
  if constexpr (sizeof(T) == sizeof(float)) {
    for (int64_t j = 0; j < count; ++j) {
      if (rows.element_stride == 1) {
        WidenRow(rows.At(begin + j, 0), rows.element, width, scratch + j * width);
      } else {
        for (int64_t c = 0; c < width; ++c) scratch[j * width + c] = LoadNarrow(rows.At(begin + j, c), rows.element);
      }
    }
  }
  return {scratch, width, 1};
}

template <class T>
HWY_INLINE void CopyRow(const T* from, int64_t width, T* to) {
  const hn::ScalableTag<T> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + step <= width; c += step) hn::StoreU(hn::LoadU(d, from + c), d, to + c);
  for (; c < width; ++c) to[c] = from[c];
}

// to[c] = factor * from[c]; both may be the same.
template <class T>
HWY_INLINE void ScaleRow(const T* from, int64_t width, T factor, T* to) {
  const hn::ScalableTag<T> d;
  const int64_t step = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + step <= width; c += step) hn::StoreU(hn::Mul(hn::LoadU(d, from + c), hn::Set(d, factor)), d, to + c);
  for (; c < width; ++c) to[c] = factor * from[c];
}

// Rounds neighbouring elements to nearest, ties to even, as ToBFloat16 and ToFloat16 do.
inline void NarrowRow(const float* from, int64_t count, core::Element element, std::byte* to) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  auto* bits = reinterpret_cast<uint16_t*>(to);
  const bool vectors = element == core::Element::kBFloat16 || HEED_SIMD_FLOAT16;
  c = ForVectors(vectors ? count : 0, [&](auto d, int64_t begin) HWY_ATTR {
    using D = decltype(d);
    const hn::Rebind<uint16_t, D> d16;
    const hn::RebindToUnsigned<D> d32;
    const auto value = hn::LoadU(d, from + begin);
    if (!hn::AllTrue(d, hn::Eq(value, value))) return false;  // NaN keeps its own rule
#if HEED_SIMD_FLOAT16
    if (element == core::Element::kFloat16) {
      hn::StoreU(hn::BitCast(d16, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value)), d16, bits + begin);
      return true;
    }
#endif
    const auto wide = hn::BitCast(d32, value);
    const auto odd = hn::And(hn::ShiftRight<16>(wide), hn::Set(d32, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(wide, hn::Set(d32, 0x7FFF)), odd));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D>(), rounded)), d16, bits + begin);
    return true;
  });
#endif
  for (; c < count; ++c) StoreNarrow(from[c], element, to + 2 * c);
}

// Zeros in rows begin .. end - 1.
inline void ClearRows(const StoredRows<std::byte>& rows, int64_t begin, int64_t end, int64_t width) {
  const auto bytes = static_cast<std::size_t>(core::BytesOf(rows.element));
  for (int64_t i = begin; i < end; ++i) {
    if (rows.element_stride == 1) {
      std::memset(rows.At(i, 0), 0, static_cast<std::size_t>(width) * bytes);
    } else {
      for (int64_t c = 0; c < width; ++c) std::memset(rows.At(i, c), 0, bytes);
    }
  }
}

// Writes one row, rounding where the caller's elements are narrower.
template <class T>
void StoreRow(const T* from, int64_t width, const StoredRows<std::byte>& rows, int64_t i) {
  if (rows.template Holds<T>()) {
    T* row = reinterpret_cast<T*>(rows.At(i, 0));
    if (rows.element_stride == 1) return CopyRow(from, width, row);
    for (int64_t c = 0; c < width; ++c) row[c * rows.element_stride] = from[c];
    return;
  }
  if constexpr (sizeof(T) == sizeof(float)) {
    if (rows.element_stride == 1) return NarrowRow(from, width, rows.element, rows.At(i, 0));
    for (int64_t c = 0; c < width; ++c) StoreNarrow(from[c], rows.element, rows.At(i, c));
  }
}

// Subtracts from a row what StoreRow made of it in 16-bit elements; 0 where that is no finite number.
inline void SubtractStored(float* row, int64_t width, const StoredRows<std::byte>& rows, int64_t i) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  c = ForVectors(rows.element_stride == 1 ? width : 0, [&](auto d, int64_t begin) HWY_ATTR {
    const std::byte* at = rows.At(i, begin);
    const auto stored = rows.element == core::Element::kBFloat16 ? LoadWide<core::Element::kBFloat16>(d, at)
                                                                 : LoadWide<core::Element::kFloat16>(d, at);
    const auto rest = hn::Sub(hn::LoadU(d, row + begin), stored);
    hn::StoreU(hn::IfThenElseZero(hn::IsFinite(rest), rest), d, row + begin);
    return true;
  });
#endif
  for (; c < width; ++c) {
    const float rest = row[c] - LoadNarrow(rows.At(i, c), rows.element);
    row[c] = std::isfinite(rest) ? rest : 0.0f;
  }
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
