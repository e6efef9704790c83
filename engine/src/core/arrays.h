// Checks of single arrays: memory behind them, extents, distinct elements. All throw InvalidArgument.
#ifndef HEED_CORE_ARRAYS_H_
#define HEED_CORE_ARRAYS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "core/checked_integer.h"
#include "core/operand.h"
#include "core/refuse.h"
#include "core/validation.h"

namespace heed::core {

// What the checks read of a View or an Operand.
template <std::size_t Rank>
struct Extents {
  const std::byte* data;
  std::array<int64_t, Rank> extent, stride;  // strides in elements
  int64_t element_bytes;

  int64_t size() const {
    int64_t n = 1;
    for (int64_t e : extent) n *= e;
    return n;
  }
};

template <class T, int Rank>
Extents<Rank> ExtentsOf(const View<T, Rank>& view) {
  Extents<Rank> result{reinterpret_cast<const std::byte*>(view.data), {}, {}, sizeof(T)};
  std::copy(view.extent.begin(), view.extent.end(), result.extent.begin());
  std::copy(view.stride.begin(), view.stride.end(), result.stride.begin());
  return result;
}

template <class Byte>
Extents<4> ExtentsOf(const Operand<Byte>& operand) {
  return {operand.data, operand.extent, operand.stride, BytesOf(operand.element)};
}

// Elements an array may have at most, and the bytes that it may span. What is counted from the extents of one array then fits
// in 63 bits, with room for what kernels round up.
constexpr int64_t kMostElements = int64_t{1} << 48, kMostBytes = int64_t{1} << 60;

// Extents whose product, with 1 in place of 0, has at most kMostElements.
template <std::size_t Rank>
void CheckExtents(const char* name, const std::array<int64_t, Rank>& extent) {
  int64_t size = 1;
  for (int64_t e : extent) {
    if (e < 0) Refuse(name, "extents must not be negative, got " + ShapeText(extent));
    if (__builtin_mul_overflow(size, std::max<int64_t>(1, e), &size) || size > kMostElements)
      Refuse(name, "expected at most 2^48 elements, got " + ShapeText(extent));
  }
}

template <class Array>
void CheckPresent(const char* name, const Array& array) {
  const auto view = ExtentsOf(array);
  CheckExtents(name, view.extent);
  if (view.size() > 0 && !view.data) Refuse(name, "no memory behind shape " + ShapeText(view.extent));
  int64_t span = view.element_bytes;
  for (std::size_t r = 0; r < view.extent.size(); ++r) {
    int64_t reach = 0;
    // The number below all others has no absolute value. A stride that is never taken is held in bounds too.
    const int64_t stride = view.stride[r] == std::numeric_limits<int64_t>::min() ? kMostBytes : std::abs(view.stride[r]);
    const int64_t steps = std::max<int64_t>(1, view.extent[r] - 1);
    if (__builtin_mul_overflow(stride, steps * view.element_bytes, &reach) || __builtin_add_overflow(span, reach, &span) ||
        span > kMostBytes)
      Refuse(name, "strides out of range for shape " + ShapeText(view.extent) + ": more than 2^60 bytes apart");
  }
}

template <class Array>
void CheckShape(const char* name, const Array& array, const decltype(ExtentsOf(array).extent)& expected, const char* meaning) {
  const auto view = ExtentsOf(array);
  if (view.extent != expected)
    Refuse(name, std::string("expected ") + meaning + " = " + ShapeText(expected) + ", got " + ShapeText(view.extent));
}

// No two elements of an output may share an address. Sorted by stride, each dimension must step over all smaller ones.
template <class Array>
void CheckDistinct(const char* name, const Array& array) {
  const auto view = ExtentsOf(array);
  if (view.size() == 0) return;
  std::array<std::pair<int64_t, int64_t>, std::tuple_size_v<decltype(view.extent)>> steps;
  for (std::size_t r = 0; r < steps.size(); ++r) steps[r] = {std::abs(view.stride[r]), view.extent[r]};
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;
  for (const auto& [stride, extent] : steps) {
    if (extent <= 1) continue;
    if (stride <= reach) Refuse(name, "its elements overlap each other; an output needs distinct elements");
    reach += (extent - 1) * stride;
  }
}

}  // namespace heed::core

#endif  // HEED_CORE_ARRAYS_H_
