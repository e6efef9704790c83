// Any bias, dense in the caller's memory.
#ifndef HEED_POSITION_DENSE_BIAS_H_
#define HEED_POSITION_DENSE_BIAS_H_

#include <variant>

#include "heed/element.h"
#include "heed/view.h"

namespace heed {

// In the accumulation type of the call, or in 16 bits, which are widened tile by tile. Its gradient is in the accumulation type
// either way.
using BiasValues = std::variant<View<const float, 4>, View<const double, 4>, View<const BFloat16, 4>, View<const Float16, 4>>;

// Numbers added to the scores, dense in the caller's memory: extents are those of [B, Hq, Nq, Nk] or 1. An entry of -inf
// hides the key as a mask does; the lowest finite number does not: a row that holds nothing else takes the mean of its values.
// Scores are kept in powers of two, so entries beyond 0.69 of the largest number of T count as that. The gradient is reduced to
// the extents of the array.
struct Bias {
  BiasValues values;
};

}  // namespace heed

#endif  // HEED_POSITION_DENSE_BIAS_H_
