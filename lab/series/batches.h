// Labelled sequences as batches for a model: split, standardised, padded.
#ifndef HEED_LAB_SERIES_BATCHES_H_
#define HEED_LAB_SERIES_BATCHES_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <vector>

#include "lab/data/random.h"
#include "lab/runs/baseline.h"
#include "lab/series/data.h"
#include "lab/series/scale.h"
#include "lab/series/split.h"

namespace heed::lab {

// How labelled sequences are cut into batches and parts.
struct SeriesCut {
  int64_t batch = 16;      // sequences or windows a step
  int64_t context = 32;    // of a forecast: steps of a window
  int64_t horizon = 1;     // of a forecast: values foretold after the window
  int64_t longest = 1024;  // steps of a sequence that are read, the last ones; bounds time and memory
  double share = 0.2;      // for validation, and as much again to test: of the sequences, or of the end of each for a forecast
};

// Rows end to end, each padded to the steps of the longest.
struct SeriesBatch {
  int64_t rows = 0, steps = 0;
  // [rows, steps, width]; 0 behind a row's length. Each column standardised; of a forecast its change since the step before, in
  // units of its typical change. Then, where there are times, the logarithm of the time since the step before.
  std::vector<float> features;
  std::vector<double> times;     // [rows, steps] in typical steps from the first; without times 0, 1, ..
  std::vector<int64_t> lengths;  // [rows], at least 1
  std::vector<int64_t> scored;   // places in the flattened rows; the rows themselves where each has one target
  std::vector<int64_t> classes;  // [scored], of a classification
  // [scored, outputs] else: standardised; of a forecast what is added to the last value, in units of its typical change.
  std::vector<float> values;
};

// Three parts: models and baselines are fitted on the first, choices are made on the second, what is reported is measured on
// the third. Classification and regression: a fifth of the sequences each is for validation and for testing (SplitSequences).
// Forecast: the end of each sequence (SplitSteps); windows of `context` steps are trained to foretell the next `horizon` values
// of the target at each of their steps, as the change from the value there, and scored at their last step; a window belongs to
// the part in which all values lie that it foretells there.
// Means, deviations and typical changes are those of the training part, and so is the typical step, the median
// difference of times, which every model is given as a further feature.
class SeriesBatches {
 public:
  // Throws InvalidArgument where the data are too few, and FileError that names the place of a number which is too large or too
  // small to compute with, see magnitudes.h. `data` must outlive the object.
  SeriesBatches(const SeriesData& data, const SeriesCut& cut);

  const SeriesData& data() const { return data_; }
  int64_t width() const { return data_.Width() + (data_.has_times ? 1 : 0); }
  int64_t outputs() const;
  bool pooled() const { return !data_.each_step; }  // one target a sequence
  int64_t longest() const;                          // steps of a batch, at most
  // Sequences, or windows of a forecast. Of the windows for validation and for testing at most 512 are kept, evenly spread.
  int64_t training_count() const { return training_count_; }
  int64_t validation_count() const { return std::ssize(validation_); }
  int64_t test_count() const { return std::ssize(test_); }
  // At most so many of those that train, evenly spread; all that validate, and all that test.
  std::vector<SeriesWindow> TrainingWindows(int64_t most) const;
  const std::vector<SeriesWindow>& validation_windows() const { return validation_; }
  const std::vector<SeriesWindow>& test_windows() const { return test_; }
  // The windows of the part in at most 32 groups that follow one another: sequences, or times of a forecast, each at least as
  // long as a window and what it foretells, so that what one group is scored on tells little of the next.
  std::vector<std::vector<SeriesWindow>> TestBlocks() const { return Blocks(test_); }
  std::vector<std::vector<SeriesWindow>> ValidationBlocks() const { return Blocks(validation_); }
  const std::vector<StepParts>& parts() const { return parts_; }  // of each sequence
  // The steps of each sequence that belong to the part.
  const std::vector<SeriesWindow>& training_steps() const { return training_; }
  const std::vector<SeriesWindow>& test_steps() const { return test_steps_; }
  // What a value of a batch is in the target's own units; squared errors are multiplied by its square, error_scale().
  double target_scale() const { return target_scale_; }
  double error_scale() const { return target_scale_ * target_scale_; }

  double typical_step() const { return time_unit_; }  // the median difference of times in the training part

  SeriesBatch Draw(Random& random) const;
  // These windows; those of a forecast are scored at their last step alone.
  SeriesBatch Make(const std::vector<SeriesWindow>& windows) const { return Make(windows, Forecasts()); }
  // All of the part once, some rows at a time.
  using Visit = std::function<void(const SeriesBatch&)>;
  void ForEach(const std::vector<SeriesWindow>& windows, const Visit& visit) const;
  // What is answered without looking at the features, measured on these blocks of a part: the commonest class, the mean, the
  // last value.
  Baseline SimpleAnswer(const std::vector<std::vector<SeriesWindow>>& blocks) const;

 private:
  // Of a column in the training part.
  struct Scale {
    Moments moments;
    double change;  // a typical one
  };

  std::vector<std::vector<SeriesWindow>> Blocks(const std::vector<SeriesWindow>& windows) const;
  bool Forecasts() const { return data_.goal == SeriesGoal::kForecast; }
  void SplitBySequence();
  void SplitByTime();
  void Standardise();
  void StandardiseTarget(const std::vector<double>& targets);
  std::vector<double> ForetoldChanges() const;
  SeriesBatch Make(const std::vector<SeriesWindow>& windows, bool last_step_only) const;
  void Fill(const SeriesWindow& window, int64_t row, bool last_step_only, SeriesBatch& batch) const;
  void FillFeatures(const SeriesSequence& sequence, int64_t step, float* out) const;
  void Score(const SeriesWindow& window, int64_t row, int64_t step, SeriesBatch& batch) const;
  SeriesWindow WholeOf(int64_t sequence) const;
  SeriesWindow TrainingWindow(int64_t index) const;

  const SeriesData& data_;
  SeriesCut cut_;
  std::vector<StepParts> parts_;  // of each sequence
  std::vector<SeriesWindow> training_, test_steps_;
  std::vector<int64_t> starts_;  // forecast: windows that begin in the sequences before and in this one
  int64_t training_count_ = 0;
  std::vector<SeriesWindow> validation_, test_;
  std::vector<Scale> scales_;  // of features
  double target_mean_ = 0, target_scale_ = 1, time_unit_ = 1;
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_BATCHES_H_
