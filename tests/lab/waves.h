// Numbers to compute with.
#ifndef HEED_TESTS_LAB_WAVES_H_
#define HEED_TESTS_LAB_WAVES_H_

#include <cmath>
#include <cstdint>
#include <vector>

namespace heed::lab {

// Weights and inputs of no special values; different ones for different seeds.
inline std::vector<double> Waves(int64_t size, double seed) {
  std::vector<double> values(size);
  for (int64_t i = 0; i < size; ++i) values[i] = std::sin(0.7 * static_cast<double>(i) + seed);
  return values;
}

}  // namespace heed::lab

#endif  // HEED_TESTS_LAB_WAVES_H_
