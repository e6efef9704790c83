// Turns labelled sequences into numbers for a model, by statistics of the training part that are saved with the model.
#ifndef HEED_LAB_SERIES_FORM_H_
#define HEED_LAB_SERIES_FORM_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/series_form.h"
#include "lab/series/data.h"

namespace heed::lab {

// Rows end to end, each padded to the steps of the longest.
struct SeriesBatch {
  int64_t rows = 0, steps = 0;
  // [rows, steps, width]; 0 behind a row's length. Each column standardised; of a forecast its change since the step before, in
  // units of its typical change. Then the marks, the terms of the calendar, and where there are times the logarithm of the time
  // since the step before.
  std::vector<float> features;
  std::vector<double> times;     // [rows, steps] in typical steps from the first; without times 0, 1, ..
  std::vector<int64_t> lengths;  // [rows], at least 1
  std::vector<int64_t> scored;   // places in the flattened rows; the rows themselves where each has one target
  std::vector<int64_t> classes;  // [scored], of a classification
  // [scored, outputs] else: standardised; of a forecast what is added to the last value, in units of its typical change.
  std::vector<float> values;
};

// Which targets a batch has. Of a forecast those at the last step of each window, or at every step; of other goals all. kNone:
// as kLast, for data whose targets are not known.
enum class Targets { kNone, kLast, kAll };

// A window, and how many of its first steps the window before answers: the last one reaches back to be as long as the others.
struct AnsweredWindow {
  SeriesWindow window;
  int64_t answered = 0;
};

struct SeriesForm : heed::SeriesForm {
  double error_scale() const { return target_scale * target_scale; }

  // The steps of a sequence that are read where it has one answer: the last.
  SeriesWindow WindowOf(const SeriesData& data, int64_t sequence) const;
  // The windows that the answers of a sequence come from: its end alone where it has one answer, else all steps, end to end.
  std::vector<AnsweredWindow> AnsweredWindows(const SeriesData& data, int64_t sequence) const;
  // How many answers windows have.
  int64_t Answers(const std::vector<SeriesWindow>& windows) const;
  // Of a forecast: adds the windows of which all values that they foretell lie in steps begin .. end - 1 of a sequence.
  void AddWindows(int64_t sequence, int64_t begin, int64_t end, std::vector<SeriesWindow>& windows) const;
  // Of a forecast whose target is a feature: whether a value that the window foretells is missing in the data.
  bool ForetellsGap(const SeriesData& data, const SeriesWindow& window) const;
  SeriesBatch Make(const SeriesData& data, const std::vector<SeriesWindow>& windows, Targets targets) const;
  // All windows once, some rows at a time.
  using Visit = std::function<void(const SeriesBatch& batch)>;
  void ForEach(const SeriesData& data, const std::vector<SeriesWindow>& windows, Targets targets, const Visit& visit) const;

 private:
  void Fill(const SeriesData& data, const SeriesWindow& window, int64_t row, Targets targets, SeriesBatch& batch) const;
  void Score(const SeriesSequence& sequence, const SeriesWindow& window, int64_t row, int64_t step, Targets targets,
             SeriesBatch& batch) const;
};

// All throw FileError that names file, row (or sequence and step), column and value.

// Features, times and numbers to foretell lie within +-1e100: sums of squares of many of them are finite then.
void RequireMagnitudes(const SeriesData& data);

// Standardised by the form, no feature and no number to foretell is beyond 1e15, whose squares a float holds; the squared
// deviation of the target, in which errors are told, does not vanish.
void RequireStandardised(const SeriesData& data, const SeriesForm& form);

// Both, and for times that they can be told apart, of data that a model of this form is to read.
void RequireComputable(const SeriesData& data, const SeriesForm& form);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_FORM_H_
