// What may still become of a training that has not ended.
#ifndef HEED_LAB_RUNS_PROSPECT_H_
#define HEED_LAB_RUNS_PROSPECT_H_

#include <vector>

#include "lab/training/curve.h"

namespace heed::lab {

// A model by the validation part.
struct Prospect {
  Foretold end;                // of a whole training; its gain and error are 0 after one
  std::vector<double> blocks;  // the losses of its best state so far
};

// By how much less than `other` `one` may lose at the end of a whole training, at most; less than 0 where it cannot end ahead.
// Three errors add up as those of independent numbers do: two deviations of the mean difference between their losses on the
// blocks, another seed, and those of what the curves foretell. weights: how many predictions each block holds.
double MayEndAhead(const Prospect& one, const Prospect& other, const std::vector<double>& weights);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_PROSPECT_H_
