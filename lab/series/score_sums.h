// Scores of answers, summed as they come.
#ifndef HEED_LAB_SERIES_SCORE_SUMS_H_
#define HEED_LAB_SERIES_SCORE_SUMS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace heed::lab {

// By name, in the order in which they are told.
using NamedScores = std::vector<std::pair<std::string, double>>;

// Of classes: loss (nats), accuracy, macro_f1 (mean over the classes that occur), auc (area under the ROC curve; of more than
// two classes the mean of each against the rest, over those that occur). The area needs every answer: 12 bytes of each are
// kept, of more than two classes 8 for each class and 4.
class ClassScores {
 public:
  explicit ClassScores(int64_t classes);
  // probabilities: [classes].
  void Add(const double* probabilities, int64_t truth);
  int64_t answers() const { return static_cast<int64_t>(truths_.size()); }
  NamedScores Numbers() const;

 private:
  double Area() const;
  double AreaOf(int64_t label, int64_t column) const;

  int64_t classes_, kept_;  // probabilities that are kept of an answer
  double loss_ = 0;
  std::vector<double> of_it_, told_, both_;  // answers by their true class, by the class that was said, and where both agree
  std::vector<double> probabilities_;        // [answers, kept_]
  std::vector<int32_t> truths_;
};

// Of values: mse, mae, r2, coverage (share of the values within the interval); of forecasts mse, mae, mase (mae in units of the
// mean change from step to step before the scored part: Hyndman and Koehler 2006, "Another look at measures of forecast
// accuracy"), pinball (of the quantiles 0.1 and 0.9, in the mean), coverage.
class ValueScores {
 public:
  explicit ValueScores(bool forecasts) : forecasts_(forecasts) {}
  // low, high: of the interval, beside the answer. naive: the mean change before, of a forecast.
  void Add(double truth, double answer, double low, double high, double naive);
  int64_t answers() const { return answers_; }
  NamedScores Numbers() const;

 private:
  bool forecasts_;
  int64_t answers_ = 0;
  double squares_ = 0, sizes_ = 0, scaled_ = 0, pinball_ = 0, covered_ = 0;
  double mean_ = 0, spread_ = 0;  // of the truths, and the squares of their distances from it
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SCORE_SUMS_H_
