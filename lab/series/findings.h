// Sentences computed from what models lost on labelled sequences: other losses, other sentences.
#ifndef HEED_LAB_SERIES_FINDINGS_H_
#define HEED_LAB_SERIES_FINDINGS_H_

#include <string>
#include <vector>

#include "lab/runs/finding.h"
#include "lab/series/series.h"

namespace heed::lab {

// Which model is best, how far the next is behind seed by seed, or that they cannot be told apart. Of the best attention and
// every other encoder; empty for fewer than two.
std::string SeriesEncoderFinding(const SeriesResult& result);
// The same of attention's positional encodings.
std::string SeriesSchemeFinding(const SeriesResult& result);
// Which models beat what needs no model, with every seed; which do not.
std::string SeriesBaselineFinding(const SeriesResult& result);

// The three above, without those that are empty.
std::vector<Finding> SeriesConclusion(const SeriesResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_FINDINGS_H_
