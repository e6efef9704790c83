// Positions that count the keys that a query gates in.
#ifndef HEED_POSITION_CONTEXTUAL_POSITION_H_
#define HEED_POSITION_CONTEXTUAL_POSITION_H_

#include "heed/table.h"

namespace heed {

// Golovneva et al. 2024, "Contextual Position Encoding", section 4 (CoPE). Each score s[i,j], with all other terms, has a gate
// g[i,j] = 1 / (1 + exp(-s[i,j])), 0 for hidden keys. The position of key j for query i is the sum of the gates from key j to
// the last key of the sequence, p[i,j] = min(sum over k >= j of g[i,k], P - 1); positions of tokens have no influence. Under
// causality it counts the keys from j to i that the query gates in. q[i].table[p[i,j]] is added to the score, linear between
// whole positions; the derivative at a whole position is that towards larger ones. The scale must not be 0. Finite entries
// only.
struct ContextualPosition {
  Table<2> table;  // [P, D], P at least 1
};

}  // namespace heed

#endif  // HEED_POSITION_CONTEXTUAL_POSITION_H_
