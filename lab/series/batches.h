// Labelled sequences as batches for a model: split, standardised, padded.
#ifndef HEED_LAB_SERIES_BATCHES_H_
#define HEED_LAB_SERIES_BATCHES_H_

#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "lab/data/random.h"
#include "lab/series/form.h"

namespace heed::lab {

// How labelled sequences are cut into batches and parts.
struct SeriesCut {
  int64_t batch = 16;      // sequences or windows a step
  int64_t context = 32;    // of a forecast: steps of a window
  int64_t horizon = 1;     // of a forecast: values foretold after the window
  int64_t longest = 1024;  // steps of a window, which bounds time and memory
  double share = 0.2;      // for validation, and as much again to test: of the sequences, or of the end of each
};

// Three parts: models and baselines are fitted on the first, choices are made on the second, what is reported is measured on
// the third. Classification and regression: a fifth of the sequences each is for validation and for testing (SplitSequences);
// of one or two recordings whose steps have targets, a fifth of the steps each (SplitSteps). Where a sequence has one target
// its last `longest` steps are read; where steps have targets, windows of `longest` steps, end to end, from the beginning of
// its part, and where parts cut sequences shorter ones, so that the test part has some eight. Forecast: the end of each
// sequence (SplitSteps); windows of `context` steps are trained to foretell the next `horizon` values of the target at each of
// their steps, as the change from the value there, and scored at their last step; a window belongs to the part in which all
// values lie that it foretells there. Windows that foretell a missing value are not scored. Means, deviations and typical
// changes are those of the training part, and so is the typical step, the median difference of times. Times give every model
// further features: the time since the step before, and of a forecast with dates the terms of the calendar, see heed::FillTime.
class SeriesBatches {
 public:
  // Throws InvalidArgument where the data are too few, and FileError that names the place of a number which is too large or too
  // small to compute with, see RequireMagnitudes of form.h. `data` must outlive the object.
  SeriesBatches(const SeriesData& data, const SeriesCut& cut);

  const SeriesData& data() const { return data_; }
  const SeriesForm& form() const { return form_; }
  bool pooled() const { return !data_.each_step; }  // one target a sequence
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
  // Of each sequence of a forecast those that come before its test part.
  std::vector<SeriesWindow> StepsBeforeTest() const;

  SeriesBatch Draw(Random& random) const;
  // These windows; those of a forecast are scored at their last step alone.
  SeriesBatch Make(const std::vector<SeriesWindow>& windows) const { return form_.Make(data_, windows, Targets::kLast); }
  // All of the part once, some rows at a time.
  using Visit = std::function<void(const SeriesBatch&)>;
  void ForEach(const std::vector<SeriesWindow>& windows, const Visit& visit) const;

 private:
  std::vector<std::vector<SeriesWindow>> Blocks(const std::vector<SeriesWindow>& windows) const;
  bool Forecasts() const { return form_.Forecasts(); }
  void SplitInWindows();
  void AddWindows(const SeriesWindow& steps, std::vector<SeriesWindow>& windows) const;
  void SplitByTime();
  void DropGaps(std::vector<SeriesWindow>& windows) const;
  void Standardise();
  // Of the calendar, those that the training part holds one and a half times, and two steps fit into.
  std::vector<std::string> PeriodsSeen() const;
  void StandardiseTarget(const std::vector<double>& targets);
  std::vector<double> ForetoldChanges() const;
  SeriesWindow TrainingWindow(int64_t index) const;

  const SeriesData& data_;
  SeriesCut cut_;
  SeriesForm form_;
  std::vector<StepParts> parts_;  // of each sequence
  std::vector<SeriesWindow> training_, training_windows_, test_steps_;
  std::vector<int64_t> starts_;  // forecast: windows that begin in the sequences before and in this one
  int64_t training_count_ = 0;
  std::vector<SeriesWindow> validation_, test_;
};

// What is lost and got right on some windows, added up over answers; of MeansOver in their mean.
struct LossSums {
  double loss = 0, right = 0, answers = 0;
};
// Over the answers of all blocks; the mean loss on each goes to `losses`.
LossSums MeansOver(const std::vector<std::vector<SeriesWindow>>& blocks,
                   const std::function<LossSums(const std::vector<SeriesWindow>& windows)>& sums_of,
                   std::vector<double>& losses);

// Root of the mean square of changes from one value of a column to another; 1 where there are none, or none but by rounding
// beside the column's mean.
double ScaleOfChanges(const std::vector<double>& changes, double mean);

struct SeriesRange {
  std::string column;
  double low = 0, high = 0;            // of the training part
  double test_low = 0, test_high = 0;  // of the test part
  double outside = 0;                  // share of the test part's values that lie outside
};

// Of the features, and of the target where it is a number and no feature; those alone that leave it, by the share of their
// values that does, the greatest first.
std::vector<SeriesRange> RangesLeft(const SeriesBatches& batches);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_BATCHES_H_
