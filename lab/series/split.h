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

// Windows of a forecast that are scored of a part, at most.
inline constexpr int64_t kMostForecasts = 512;
// So many of them, or all where there are fewer.
std::vector<SeriesWindow> EvenlySpread(std::vector<SeriesWindow> windows, int64_t most);

// `share` of the sequences to validate and as many to test, drawn with a seed that never changes. Classes are drawn one by one,
// so that each that has three sequences or more is in all parts; those with fewer are drawn together. A sequence whose steps
// have classes of their own counts for its commonest. Throws InvalidArgument for fewer than three sequences.
std::vector<StepParts> SplitSequences(const SeriesData& data, double share);

// `share` of the steps each, at least one, to validate and to test.
StepParts SplitSteps(int64_t steps, double share);

// Cuts all sequences at the same two dates, before which 1 - 2 share and 1 - share of all steps lie: no sequence trains on a
// day that another is tested on. Empty where the data have no dates, or where half of the sequences or more do not reach from
// before both dates to behind them.
std::vector<StepParts> SplitByDate(const SeriesData& data, double share);

// Whether parts are steps of a sequence: of a forecast, of a file that cuts sequences, and of one or two recordings whose steps
// have targets of their own.
bool CutsSequences(const SeriesData& data);

// Of every sequence, in order: as the file tells, or for a forecast by SplitByDate where there are several, else by SplitSteps
// where parts cut sequences, else by SplitSequences, where a sequence is in one part. Throws FileError where a class of one or
// two recordings stands behind the training part alone.
std::vector<StepParts> SplitOf(const SeriesData& data, double share);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SPLIT_H_
