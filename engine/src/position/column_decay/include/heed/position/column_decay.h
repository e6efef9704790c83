// Products whose columns decay with the distance (xPos).
#ifndef HEED_POSITION_COLUMN_DECAY_H_
#define HEED_POSITION_COLUMN_DECAY_H_

#include "heed/table.h"

namespace heed {

// Multiplies the term q[i,c] k[j,c] of a product by exp(-rates[c] * (query position - key position)). With rotated queries and
// keys, and rates -log(zeta) / scale_base, this is xPos: Sun et al. 2023, "A Length-Extrapolatable Transformer", section 3.2.
// Terms of other schemes do not decay.
//
// It needs causality and refuses prefixes, so no factor exceeds 1, and no text is long enough to overflow. Neighbouring queries
// should have near positions: a panel of them (64 at most) whose positions are farther apart than 20 / max(rates) is computed
// pair by pair, many times slower.
struct ColumnDecay {
  Table<1> rates;  // [D], finite, 0 or more; without a gradient
};

}  // namespace heed

#endif  // HEED_POSITION_COLUMN_DECAY_H_
