// Results on labelled sequences without a sequence model: constant answers and simple methods.
#ifndef HEED_LAB_SERIES_BASELINES_H_
#define HEED_LAB_SERIES_BASELINES_H_

#include <vector>

#include "lab/runs/measurements.h"

namespace heed::lab {

class SeriesBatches;

// What is answered without looking at the features: the commonest class, the mean, the last value.
Baseline SimpleAnswer(const SeriesBatches& batches);

// SimpleAnswer, then for
//   classification  logistic regression, on the steps with summaries of them and on these alone, and nearest neighbours,
//   regression      ridge regression alike, and nearest neighbours,
//   forecast        the last season, Holt-Winters, where there are dates the calendar, and ridge regression and nearest
//                   neighbours on the window minus its last value,
// regressions and neighbours on the cells of SeriesExamples. The validation part chooses their settings; their loss on the test
// part is that of a second fit, to training and validation part. So many side by side as `threads` says, each with one thread:
// the numbers do not depend on it. Throws Interruption on Ctrl-C.
std::vector<Baseline> SeriesBaselines(const SeriesBatches& batches, int threads);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_BASELINES_H_
