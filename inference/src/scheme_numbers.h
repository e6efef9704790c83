// What the positional schemes of attention on plain memory share: limits of their tables, and numbers that were loaded or not.
#ifndef HEED_INFERENCE_SRC_SCHEME_NUMBERS_H_
#define HEED_INFERENCE_SRC_SCHEME_NUMBERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/table.h"

namespace heed {

// Tables by offset: low enough that no product of sizes overflows.
inline constexpr int64_t kMostDistance = int64_t{1} << 30;
// A table by offset that is made from a few numbers: a small file that claims a large distance takes no more than this.
inline constexpr int64_t kMostComputed = int64_t{1} << 26;

[[noreturn]] inline void RefuseScheme(const std::string& what) {
  throw InvalidArgument("MultiHeadAttention: position: " + what);
}

inline void CheckDistance(int64_t max_distance, int64_t least = 0) {
  if (max_distance < least || max_distance > kMostDistance)
    RefuseScheme("max_distance: expected " + std::to_string(least) + " to 2^30, got " + std::to_string(max_distance));
}

inline void CheckComputed(const char* sizes, int64_t width, int64_t offsets) {
  int64_t numbers = 0;
  if (__builtin_mul_overflow(width, offsets, &numbers) || numbers > kMostComputed)
    RefuseScheme(std::string("expected at most 2^26 for ") + sizes + ", got " + std::to_string(width) + " * " +
                 std::to_string(offsets));
}

using Numbers = std::vector<float>;

inline void RequireLoaded(const Numbers& numbers) {
  if (numbers.empty()) RefuseScheme("its weights were not loaded");
}

inline Table<2> TableOf(const Numbers& numbers, int64_t rows, int64_t columns) {
  RequireLoaded(numbers);
  return View<const float, 2>::Contiguous(numbers.data(), {rows, columns});
}

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_SCHEME_NUMBERS_H_
