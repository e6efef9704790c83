// Arithmetic of whole numbers that the formulas of several layers need.
#ifndef HEED_BOOK_COMPARISON_LAYERS_WHOLE_NUMBERS_H_
#define HEED_BOOK_COMPARISON_LAYERS_WHOLE_NUMBERS_H_

#include <algorithm>
#include <cstdint>

#include "book/comparison/reachability.h"

namespace heed::lab {

// Hops of at most `reach` positions that cover a distance.
constexpr int64_t HopsOver(int64_t distance, int64_t reach) {
  if (distance == 0) return 0;
  return reach == 0 ? kNever : (distance + reach - 1) / reach;
}

// How many pairs (i, i + t step) with 1 <= t <= reach lie within `length` positions: the sum of length - t step.
constexpr int64_t PairsWithin(int64_t reach, int64_t step, int64_t length) {
  const int64_t farthest = std::min(reach, (length - 1) / step);
  return farthest * length - step * farthest * (farthest + 1) / 2;
}

// base^exponent, but at most `limit`.
constexpr int64_t PowerUpTo(int64_t base, int64_t exponent, int64_t limit) {
  int64_t power = 1;
  for (int64_t i = 0; i < exponent && power < limit && base > 1; ++i) power = power > limit / base ? limit : power * base;
  return power;
}

// The smallest m with base^m >= number; base >= 2 or number 1.
constexpr int64_t CeilLog(int64_t number, int64_t base) {
  int64_t exponent = 0;
  for (int64_t power = 1; power < number; power *= base) ++exponent;
  return exponent;
}

constexpr int64_t LargestDigit(int64_t number, int64_t base) {
  int64_t largest = 0;
  for (; number > 0; number /= base) largest = std::max(largest, number % base);
  return largest;
}

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_WHOLE_NUMBERS_H_
