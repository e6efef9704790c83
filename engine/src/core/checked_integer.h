// Arithmetic of whole numbers that come from a caller: it either fits in 63 bits, or is refused by name, or stays at the end of
// the numbers where a larger one would mean the same.
#ifndef HEED_CORE_CHECKED_INTEGER_H_
#define HEED_CORE_CHECKED_INTEGER_H_

#include <cstdint>
#include <limits>

#include "core/refuse.h"

namespace heed::core {

// Both throw InvalidArgument naming `what`.
inline int64_t CheckedProduct(int64_t a, int64_t b, const char* what) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) Refuse(what, "its size does not fit in 63 bits");
  return product;
}
inline int64_t CheckedSum(int64_t a, int64_t b, const char* what) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) Refuse(what, "its size does not fit in 63 bits");
  return sum;
}

// For bounds: what lies beyond the numbers bounds nothing.
constexpr int64_t SaturatedSum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}
constexpr int64_t SaturatedDifference(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return b > 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

}  // namespace heed::core

#endif  // HEED_CORE_CHECKED_INTEGER_H_
