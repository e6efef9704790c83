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

// `share` of the steps each, at least one, to validate and to test.
StepParts SplitSteps(int64_t steps, double share);

// Of every sequence, in order: as the file tells, or by SplitSteps for a forecast and by SplitSequences for other goals, where
// a sequence is in one part.
std::vector<StepParts> SplitOf(const SeriesData& data, double share);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SPLIT_H_
