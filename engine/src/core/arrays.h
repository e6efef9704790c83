// Checks of single arrays: memory behind them, extents, elements that overlap. All throw InvalidArgument.
#ifndef HEED_CORE_ARRAYS_H_
#define HEED_CORE_ARRAYS_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/validation.h"

namespace heed::core {

[[noreturn]] inline void Refuse(const std::string& argument, const std::string& why) {
  throw InvalidArgument(argument + ": " + why);
}

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

template <class Array>
void CheckPresent(const char* name, const Array& array) {
  const auto view = ExtentsOf(array);
  int64_t size = 1;
  for (int64_t e : view.extent) {
    if (e < 0) Refuse(name, "extents must not be negative, got " + ShapeText(view.extent));
    size = CheckedProduct(size, e, name);
  }
  if (size > 0 && !view.data) Refuse(name, "no memory behind shape " + ShapeText(view.extent));
  for (std::size_t r = 0; r < view.extent.size(); ++r) {
    if (view.stride[r] == std::numeric_limits<int64_t>::min()) Refuse(name, "stride out of range");
    CheckedProduct(view.extent[r], std::abs(view.stride[r]), name);
  }
}

template <class Array>
void CheckShape(const char* name, const Array& array, const decltype(ExtentsOf(array).extent)& expected, const char* meaning) {
  const auto view = ExtentsOf(array);
  if (view.extent != expected)
    Refuse(name, std::string("expected ") + meaning + " = " + ShapeText(expected) + ", got " + ShapeText(view.extent));
}

// The half-open range of addresses an array touches.
struct Span {
  const std::byte* begin;
  const std::byte* end;
};

template <std::size_t Rank>
Span SpanOf(const Extents<Rank>& view) {
  int64_t low = 0, high = 0;
  for (std::size_t r = 0; r < Rank; ++r) {
    const int64_t reach = (view.extent[r] - 1) * view.stride[r];
    (reach < 0 ? low : high) += reach;
  }
  return {view.data + low * view.element_bytes, view.data + (high + 1) * view.element_bytes};
}

template <class A, class B>
void CheckApart(const char* output, const A& a, const char* other, const B& b) {
  const auto x = ExtentsOf(a);
  const auto y = ExtentsOf(b);
  if (!x.data || !y.data || x.size() == 0 || y.size() == 0) return;
  const Span of_x = SpanOf(x), of_y = SpanOf(y);
  if (of_x.begin < of_y.end && of_y.begin < of_x.end) Refuse(output, std::string("its memory overlaps ") + other);
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
