// Labelled sequences as batches for a model: split, standardised, padded.
#ifndef HEED_LAB_SERIES_BATCHES_H_
#define HEED_LAB_SERIES_BATCHES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/data/random.h"
#include "lab/series/data.h"
#include "lab/series/options.h"

namespace heed::lab {

// Rows end to end, each padded to the steps of the longest.
struct SeriesBatch {
  int64_t rows = 0, steps = 0;
  std::vector<float> features;   // [rows, steps, width]; 0 behind a row's length
  std::vector<double> times;     // [rows, steps] in typical steps from the first; without times 0, 1, ..
  std::vector<int64_t> lengths;  // [rows], at least 1
  std::vector<int64_t> scored;   // places in the flattened rows; the rows themselves where each has one target
  std::vector<int64_t> classes;  // [scored], of a classification
  std::vector<float> values;     // [scored, outputs] else, standardised; of a forecast: what is added to the last value
};

// Losses that need no model, on the validation part by the training part.
struct SeriesBaseline {
  std::string name;     // "commonest class", "mean", "last value"
  double loss = 0;      // nats, or mean squared error in the target's own units
  double accuracy = 0;  // of a classification
};

// Classification and regression: a fifth of the sequences, drawn with a fixed seed, is for validation. Forecast: the last fifth
// of each sequence; windows of `context` steps are trained to foretell the next `horizon` values of the target at each of their
// steps, as the change from the value there, and scored at their last step, where all foretold values lie in the last fifth.
// Mean and deviation of features and target are those of the training part, and so is the typical step, the median difference
// of times, which every model is given as a further feature.
class SeriesBatches {
 public:
  // Throws InvalidArgument where the data are too few, and FileError that names the place of a number which is too large or too
  // small to compute with, see magnitudes.h. `data` must outlive the object.
  SeriesBatches(const SeriesData& data, const SeriesOptions& options);

  const SeriesData& data() const { return data_; }
  int64_t width() const { return data_.Width() + (data_.has_times ? 1 : 0); }
  int64_t outputs() const;
  bool pooled() const { return !data_.each_step; }  // one target a sequence
  int64_t longest() const;                          // steps of a batch, at most
  // Sequences, or windows of a forecast.
  int64_t training_count() const { return training_count_; }
  int64_t validation_count() const { return static_cast<int64_t>(validation_.size()); }
  // Squared errors of standardised targets become those of the target by this factor.
  double error_scale() const { return target_deviation_ * target_deviation_; }

  SeriesBatch Draw(Random& random) const;
  // All of the validation part once, some rows at a time.
  void ForEachValidation(const std::function<void(const SeriesBatch&)>& visit) const;
  SeriesBaseline Baseline() const;

 private:
  // Steps first .. first + steps - 1 of a sequence.
  struct Window {
    int64_t sequence, first, steps;
  };

  bool Forecasts() const { return data_.goal == SeriesGoal::kForecast; }
  void SplitSequences(double share);
  void SplitTimes(double share);
  void Standardise();
  SeriesBatch Make(const std::vector<Window>& windows, bool last_step_only) const;
  void Fill(const Window& window, int64_t row, bool last_step_only, SeriesBatch& batch) const;
  void Score(const Window& window, int64_t row, int64_t step, SeriesBatch& batch) const;
  Window WholeOf(int64_t sequence) const;

  const SeriesData& data_;
  int64_t batch_, context_, horizon_, cut_;
  std::vector<int64_t> training_;       // sequences
  std::vector<int64_t> training_ends_;  // steps of each sequence that belong to the training part
  std::vector<int64_t> starts_;         // forecast: windows that begin in the sequences before and in this one
  int64_t training_count_ = 0;
  std::vector<Window> validation_;
  std::vector<double> mean_, deviation_;  // of features
  double target_mean_ = 0, target_deviation_ = 1, time_unit_ = 1;
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_BATCHES_H_
