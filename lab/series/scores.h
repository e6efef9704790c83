// How well a kept model answers data whose targets are known.
#ifndef HEED_LAB_SERIES_SCORES_H_
#define HEED_LAB_SERIES_SCORES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lab/series/kept_model.h"

namespace heed::lab {

struct SeriesScores {
  int64_t answers = 0;  // classes or values that were scored
  // In order, by name:
  //   of classes  loss (nats), accuracy, macro_f1 (mean over the classes that occur), auc (area under the ROC curve; of more
  //               than two classes the mean of each against the rest, over those that occur)
  //   of values   mse, mae, r2, coverage (share of the values within the interval of 80 %)
  //   forecasts   mse, mae, mase (mae in units of the mean change from step to step before the scored part: Hyndman and Koehler
  //               2006, "Another look at measures of forecast accuracy"), pinball (of the quantiles 0.1 and 0.9, in the mean),
  //               coverage
  std::vector<std::pair<std::string, double>> numbers;
};

// All sequences; of a forecast the values in the last `share` of each, between 0 and 1, from at most 512 windows, as a study
// scores its test part: methods see what comes before it. Throws FileError that names what is too short or cannot be computed
// with, and Interruption on Ctrl-C. on_windows hears how many sequences or windows are answered.
SeriesScores ScoresOf(const KeptModel& model, const SeriesData& data, double share,
                      const std::function<void(int64_t done, int64_t of)>& on_windows = {});

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SCORES_H_
