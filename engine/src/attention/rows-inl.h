// Rows of the caller's arrays: where they lie, and moving them to and from the type of computation.
#if defined(HEED_ATTENTION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_ATTENTION_ROWS_INL_H_
#undef HEED_ATTENTION_ROWS_INL_H_
#else
#define HEED_ATTENTION_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/operand.h"
#include "hwy/highway.h"
#include "simd/ahead.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows in the type of computation: row i, element c at data[i * row_stride + c * element_stride].
template <class T>
struct HeadRows {
  T* data;
  int64_t row_stride, element_stride;

  T* Row(int64_t i) const { return data + i * row_stride; }
};

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

// Asks for rows begin .. begin + count - 1 while the register tiles compute.
template <class Byte>
void AskFor(const StoredRows<Byte>& rows, int64_t begin, int64_t count, int64_t width, simd::Ahead& ahead) {
  const int64_t bytes = core::BytesOf(rows.element);
  if (rows.element_stride == 1) ahead.Add(rows.At(begin, 0), width * bytes, rows.row_stride * bytes, count);
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

// Elements of neighbouring bfloat16 are the upper halves of floats.
inline void WidenRow(const std::byte* from, core::Element element, int64_t count, float* to) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const hn::RebindToUnsigned<decltype(d)> d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* bits = reinterpret_cast<const uint16_t*>(from);
  for (; c + lanes <= count; c += lanes) {
    const auto narrow = hn::LoadU(d16, bits + c);
    if (element == core::Element::kBFloat16) {
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, narrow))), d, to + c);
    } else {
      hn::StoreU(hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, decltype(d)>(), narrow)), d, to + c);
    }
  }
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

// Writes one row, rounding where the caller's elements are narrower.
template <class T>
void StoreRow(const T* from, int64_t width, const StoredRows<std::byte>& rows, int64_t i) {
  if (rows.template Holds<T>()) {
    T* row = reinterpret_cast<T*>(rows.At(i, 0));
    if (rows.element_stride == 1) {
      std::copy_n(from, width, row);
      return;
    }
    for (int64_t c = 0; c < width; ++c) row[c * rows.element_stride] = from[c];
    return;
  }
  if constexpr (sizeof(T) == sizeof(float))
    for (int64_t c = 0; c < width; ++c) StoreNarrow(from[c], rows.element, rows.At(i, c));
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
