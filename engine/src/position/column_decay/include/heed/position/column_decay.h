// Products whose columns fade with the distance.
#ifndef HEED_POSITION_COLUMN_DECAY_H_
#define HEED_POSITION_COLUMN_DECAY_H_

#include "heed/table.h"

namespace heed {

// The term q[i,c] k[j,c] of a product is multiplied by exp(-rates[c] * (query position - key position)). With rotated queries
// and keys, and rates -log(zeta) / scale_base, this is xPos: Sun et al. 2023, "A Length-Extrapolatable Transformer", section
// 3.2. What other schemes make of queries and keys does not fade.
//
// No factor is larger than 1, because it needs causality and goes without prefixes; no product is made of numbers that grow
// with the length of a text, so that no length overflows. Queries that stand side by side should stand near each other: a panel
// of them (64 at most) whose positions are farther apart than 20 / max(rates) is computed pair by pair, many times slower.
struct ColumnDecay {
  Table<1> rates;  // [D], finite, 0 or more; without a gradient
};

}  // namespace heed

#endif  // HEED_POSITION_COLUMN_DECAY_H_
