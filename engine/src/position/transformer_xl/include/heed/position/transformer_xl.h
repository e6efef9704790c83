// Vectors by clipped offset, with tables of their own for every head.
#ifndef HEED_POSITION_TRANSFORMER_XL_H_
#define HEED_POSITION_TRANSFORMER_XL_H_

#include <optional>

#include "heed/table.h"

namespace heed {

// The position's terms of Dai et al. 2019, "Transformer-XL", section 3.3, (b) and (d): (q[i] + bias[h]) . positions[h, delta]
// is added to q[i].k[j], with delta = key position - query position clipped to -M..M, a whole number, and the rows at delta +
// M. The paper's positions[h] are its sinusoidal table, projected. Term (c), u[h].k[j], needs no option: give q + u for q, and
// bias - u for bias. Finite entries only.
struct TransformerXl {
  Table<3> positions;            // [Hq, 2M+1, D]
  std::optional<Table<2>> bias;  // [Hq, D]
};

}  // namespace heed

#endif  // HEED_POSITION_TRANSFORMER_XL_H_
