// A trainable bias by clipped offset.
#ifndef HEED_POSITION_RELATIVE_BIAS_H_
#define HEED_POSITION_RELATIVE_BIAS_H_

#include "heed/table.h"

namespace heed {

// One trainable number per head and clipped offset: bias(delta) = table[h, clip(delta, -M, M) + M] with
// delta = key position - query position, a whole number. T5 and learned relative biases are such tables. Finite entries only.
struct RelativeBias {
  Table<2> table;  // [Hq, 2M+1]
};

}  // namespace heed

#endif  // HEED_POSITION_RELATIVE_BIAS_H_
