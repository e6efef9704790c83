// Sentences computed from what models lost on labelled sequences: other losses, other sentences.
#ifndef HEED_LAB_SERIES_FINDINGS_H_
#define HEED_LAB_SERIES_FINDINGS_H_

#include <string>
#include <vector>

#include "lab/runs/finding.h"
#include "lab/series/series.h"

namespace heed::lab {

// Which model leads, and which cannot be told apart from it, in a sentence.
std::string SeriesChoiceFinding(const SeriesResult& result);
// Whether the best model is worth it: what the best of the baselines has, what the best model has, by what factor. A model is
// worth it whose loss with every seed is less, by a twentieth or more on average.
std::string SeriesWorthFinding(const SeriesResult& result);
// Which columns' test values leave the range of the training part, how far and how many; empty where none does.
std::string SeriesRangeFinding(const SeriesResult& result);

// Whether a model is worth it, then the others, without those that are empty.
std::vector<Finding> SeriesConclusion(const SeriesResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_FINDINGS_H_
