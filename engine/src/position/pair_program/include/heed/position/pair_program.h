// Programs of the caller's own as options of a call:
//   score         takes the place of the score after scale, positional terms, soft-cap and biases, before masks
//   mask_program  says which pairs are seen, beside every other mask; nothing is computed for tiles that it hides
// Gradients of captured tables of reals are `score_tables`, in the order of the tables; one that is absent is not wanted. The
// numbers of pairs that are hidden otherwise have no effect. A row that a score program leaves without keys (by -inf) is 0 also
// where empty_row is kUniform.
#ifndef HEED_POSITION_PAIR_PROGRAM_H_
#define HEED_POSITION_PAIR_PROGRAM_H_

#include "heed/score_program.h"

#endif  // HEED_POSITION_PAIR_PROGRAM_H_
