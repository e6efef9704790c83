// What is reached without a sequence model: simple answers and simple methods, fitted on the training part, their one setting
// chosen on the validation part, measured on the test part.
#ifndef HEED_LAB_SERIES_BASELINE_H_
#define HEED_LAB_SERIES_BASELINE_H_

#include <string>
#include <vector>

namespace heed::lab {

class SeriesBatches;

struct SeriesBaseline {
  std::string name = {};     // "last value", "ridge regression"
  std::string setting = {};  // that was chosen: "strength 0.01", "season of 52 steps"; empty where there is none
  std::string limits = {};   // what was left out to bound time and memory; empty: nothing
  double loss = 0;           // nats, or mean squared error in the target's own units
  double accuracy = 0;       // of a classification
  bool looks = true;         // at features, and not at past targets alone

  // "ridge regression (strength 0.01)".
  std::string Label() const;
  // "ridge regression (strength 0.01)", "the last value": within a sentence.
  std::string Phrase() const;
};

// SeriesBatches::Baseline(), then for
//   classification  logistic regression and nearest neighbours,
//   regression      ridge regression and nearest neighbours,
//   forecast        the last season, ridge regression and nearest neighbours on the window minus its last value,
// the methods on the cells of SeriesExamples. So many side by side as `threads` says, each with one thread: the numbers do not
// depend on it. Throws Interruption on Ctrl-C.
std::vector<SeriesBaseline> SeriesBaselines(const SeriesBatches& batches, int threads);

// That with the least loss; of at least one.
const SeriesBaseline& BestOf(const std::vector<SeriesBaseline>& baselines);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_BASELINE_H_
