// A key without a value that every query looks at.
#ifndef HEED_POSITION_SINKS_H_
#define HEED_POSITION_SINKS_H_

#include "heed/table.h"

namespace heed {

// A score that takes its share of a row's weight and gives nothing for it, as a trained number a head, or one a row. With a
// sink s a row has the weights p[j] = exp(s[i,j] - lse), and lse = log(exp(s) + sum_j exp(s[i,j])): those of its keys sum to 1
// minus exp(s - lse). Statistics count the sink as one more key, whose distance is 0. Dropout never meets it. A row without
// keys, or with scores of -inf alone, stays one: output 0, lse -inf. Not beside EmptyRow::kUniform. Sources: Miller 2023,
// "Attention Is Off By One" (a sink of 0); OpenAI 2025, "gpt-oss-120b & gpt-oss-20b Model Card", section 2.2.
struct Sinks {
  Table<3> scores;  // [B or 1, Hq, Nq or 1]; of packed sequences [1, Hq, Tq or 1], with Tq queries in all
};

}  // namespace heed

#endif  // HEED_POSITION_SINKS_H_
