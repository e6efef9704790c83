// A caller's array whatever type its elements have. Kernels compute in one type and convert at the edges, so that 16-bit
// inputs cost no instances of their own.
#ifndef HEED_CORE_OPERAND_H_
#define HEED_CORE_OPERAND_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "heed/element.h"
#include "heed/view.h"

namespace heed::core {

enum class Element : uint8_t { kFloat32, kFloat64, kBFloat16, kFloat16 };

template <class T>
constexpr Element ElementOf() {
  if constexpr (std::is_same_v<T, float>) return Element::kFloat32;
  if constexpr (std::is_same_v<T, double>) return Element::kFloat64;
  if constexpr (std::is_same_v<T, BFloat16>) return Element::kBFloat16;
  if constexpr (std::is_same_v<T, Float16>) return Element::kFloat16;
}

constexpr int64_t BytesOf(Element element) { return element == Element::kFloat64 ? 8 : element == Element::kFloat32 ? 4 : 2; }

// A View<.., 4> without its type. Byte is std::byte, const where only read.
template <class Byte>
struct Operand {
  Byte* data = nullptr;
  std::array<int64_t, 4> extent{}, stride{};  // in elements
  Element element = Element::kFloat32;

  bool present() const { return data != nullptr; }
};

using Input = Operand<const std::byte>;
using Output = Operand<std::byte>;

template <class T>
auto OperandOf(const View<T, 4>& view) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return Operand<Byte>{reinterpret_cast<Byte*>(view.data), view.extent, view.stride, ElementOf<std::remove_const_t<T>>()};
}

}  // namespace heed::core

#endif  // HEED_CORE_OPERAND_H_
