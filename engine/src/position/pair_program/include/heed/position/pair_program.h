// Your own programs as options of a call:
//   score         replaces the score after scale, positional terms, soft-cap and biases, before masks
//   mask_program  decides which pairs are seen, together with other masks; the kernels skip tiles that it hides
// `score_tables` are the gradients of captured real tables, in their order; absent ones are not computed. Results for pairs
// that other masks hide have no effect. A row whose scores a program sets to -inf is 0, also with empty_row kUniform.
#ifndef HEED_POSITION_PAIR_PROGRAM_H_
#define HEED_POSITION_PAIR_PROGRAM_H_

#include "heed/score_program.h"

#endif  // HEED_POSITION_PAIR_PROGRAM_H_
