// A key without a value that every query attends to.
#ifndef HEED_POSITION_SINKS_H_
#define HEED_POSITION_SINKS_H_

#include "heed/table.h"

namespace heed {

// One more score in a row's softmax, without a value: a trained number a head, or one a row. With a sink s a row has the
// weights p[j] = exp(s[i,j] - lse), and lse = log(exp(s) + sum_j exp(s[i,j])): the keys' weights sum to 1 - exp(s - lse).
// Statistics count the sink as one more key at distance 0. Dropout does not drop it. A row without keys, or whose scores are
// all -inf, keeps output 0 and lse -inf. EmptyRow::kUniform refuses sinks. Sources: Miller 2023, "Attention Is Off By One" (a
// sink of 0); OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", section 2.2.
struct Sinks {
  Table<3> scores;  // [B or 1, Hq, Nq or 1]; of packed sequences [1, Hq, Tq or 1], with Tq queries in all
};

}  // namespace heed

#endif  // HEED_POSITION_SINKS_H_
