// Closed formulas of what layers cost, exact to the last operation.
#ifndef HEED_LAB_COMPARISON_FORMULAS_H_
#define HEED_LAB_COMPARISON_FORMULAS_H_

#include <cstdint>

#include "lab/comparison/layers.h"
#include "lab/comparison/numbers.h"

namespace heed::lab {

// length >= 1. The orders of growth are those of Vaswani et al. 2017, table 1, with contiguous convolutions: operations
// k n d^2, n d^2 and n^2 d, sequential steps 1, n and 1, paths n / k, n and 1.
LayerNumbers ExpectedNumbers(const LayerShape& layer, int64_t length);

}  // namespace heed::lab

#endif  // HEED_LAB_COMPARISON_FORMULAS_H_
