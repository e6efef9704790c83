// Any bias, an array in the caller's memory.
#ifndef HEED_POSITION_DENSE_BIAS_H_
#define HEED_POSITION_DENSE_BIAS_H_

#include <variant>

#include "heed/element.h"
#include "heed/view.h"

namespace heed {

// Values in the accumulation type of the call or in 16 bits, which the kernel widens tile by tile. The gradient has the
// accumulation type.
using BiasValues = std::variant<View<const float, 4>, View<const double, 4>, View<const BFloat16, 4>, View<const Float16, 4>>;

// Numbers added to the scores; extents are those of [B, Hq, Nq, Nk] or 1. An entry of -inf hides the key as a mask does; the
// lowest finite number does not: a row of only such entries takes the mean of its values. The kernel keeps scores in powers of
// two, so entries beyond 0.69 of the largest number of T count as that. The gradient is summed to the extents of the array.
struct Bias {
  BiasValues values;
};

}  // namespace heed

#endif  // HEED_POSITION_DENSE_BIAS_H_
