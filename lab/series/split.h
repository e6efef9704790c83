// Which sequences, or which steps of each, train, validate and test.
#ifndef HEED_LAB_SERIES_SPLIT_H_
#define HEED_LAB_SERIES_SPLIT_H_

#include <cstdint>
#include <vector>

#include "lab/series/data.h"

namespace heed::lab {

// Steps first .. first + steps - 1 of a sequence.
struct SeriesWindow {
  int64_t sequence, first, steps;

  int64_t end() const { return first + steps; }
};

// Indices of sequences, ascending.
struct SequenceParts {
  std::vector<int64_t> training, validation, test;
};

// `share` of the sequences to validate and as many to test, drawn with a seed that never changes. Classes are drawn one by one,
// so that each that has three sequences or more is in all parts; those with fewer are drawn together. A sequence whose steps
// have classes of their own counts for its commonest. Throws InvalidArgument for fewer than three sequences.
SequenceParts SplitSequences(const SeriesData& data, double share);

// A sequence's first steps train, up to training_end; those up to validation_end validate, the rest test. Both are `share` of
// the steps, at least one.
struct StepParts {
  int64_t training_end, validation_end;
};
StepParts SplitSteps(int64_t steps, double share);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SPLIT_H_
