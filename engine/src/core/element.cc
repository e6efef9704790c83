#include "heed/element.h"

#include <bit>

namespace heed {

BFloat16 ToBFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return {static_cast<uint16_t>(bits >> 16 | 0x40)};
  // Half of the last place kept, less one where that place is even: carries round up, ties go to even.
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}

float ToFloat(BFloat16 value) { return std::bit_cast<float>(uint32_t{value.bits} << 16); }

Float16 ToFloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return {static_cast<uint16_t>(sign | 0x7E00)};   // NaN
  if (magnitude >= 0x477FF000) return {static_cast<uint16_t>(sign | 0x7C00)};  // 65520 and more round to infinity
  if (magnitude < 0x38800000) {
    // Below 2^-14 the result is a multiple of 2^-24: adding 2^-1 rounds the float to just that.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5F;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(aligned) - 0x3F000000))};
  }
  // Exponents are biased by 127 and 15; 13 bits of fraction go.
  const uint32_t rounded = magnitude - (uint32_t{112} << 23) + 0x0FFF + (magnitude >> 13 & 1);
  return {static_cast<uint16_t>(sign | rounded >> 13)};
}

float ToFloat(Float16 value) {
  const uint32_t sign = uint32_t{value.bits} << 16 & 0x80000000, magnitude = value.bits & 0x7FFF;
  if (magnitude >= 0x7C00) return std::bit_cast<float>(sign | 0x7F800000 | (magnitude & 0x3FF) << 13);
  if (magnitude < 0x400) {
    const float whole = static_cast<float>(magnitude) * 0x1p-24F;
    return sign ? -whole : whole;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (uint32_t{112} << 23)));
}

}  // namespace heed
