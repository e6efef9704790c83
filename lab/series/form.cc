#include "lab/series/form.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/figure.h"

namespace heed::lab {
namespace {

constexpr int64_t kStepsAtOnce = 8192;  // of an evaluation, which bounds its memory

constexpr double kLargest = 1e100;
constexpr double kLeastDeviation = 1e-100;         // of the target: its square is far from vanishing
constexpr double kLargestStandardised = 1e15;      // squares of a float, and sums of millions of them, are finite
constexpr double kMostSteps = 9007199254740992.0;  // 2^53

bool Foretells(const SeriesData& data) { return !data.Classifies(); }

// Calls visit(value, step, feature) for every feature of a sequence that is known.
void ForEachFeature(const SeriesData& data, const SeriesSequence& sequence,
                    const std::function<void(double, int64_t, int64_t)>& visit) {
  const int64_t each = data.numbers();
  for (int64_t step = 0; step < sequence.steps; ++step) {
    for (int64_t f = 0; f < std::ssize(data.features); ++f) {
      const double value = sequence.features[step * each + f];
      if (!std::isnan(value)) visit(value, step, f);
    }
  }
}

// Times lie within 2^53 typical steps of the first of their window, beyond which they would lose whole steps, and differ by
// more than what vanishes beside a typical step. Windows of `steps` steps begin at every step (sliding) or are the ends of
// sequences.
void RequireTimes(const SeriesData& data, double typical_step, int64_t steps, bool sliding) {
  for (const SeriesSequence& sequence : data.sequences) {
    const std::vector<double>& times = sequence.times;
    const int64_t count = std::ssize(times), end = std::max<int64_t>(0, count - steps);
    for (int64_t i = 1; i < count; ++i) {
      const int64_t first = sliding ? std::max<int64_t>(0, i - steps + 1) : std::min(i, end);
      const double since = (times[i] - times[i - 1]) / typical_step, whole = (times[i] - times[first]) / typical_step;
      if (since > 0 && std::isfinite(since) && whole <= kMostSteps) continue;
      throw FileError(data.Place(sequence, i, data.time) + FormatNumber(times[i]) + " lies " + FormatNumber(whole) +
                      " typical steps (of " + FormatNumber(typical_step) + ") after the start of its window and " +
                      FormatNumber(since) + " after the row before; heed tells times apart within 2^53 typical steps");
    }
  }
}

}  // namespace

SeriesWindow SeriesForm::WindowOf(const SeriesData& data, int64_t sequence) const {
  const int64_t all = data.sequences[sequence].steps, kept = std::min(all, steps());
  return {sequence, all - kept, kept};
}

std::vector<AnsweredWindow> SeriesForm::AnsweredWindows(const SeriesData& data, int64_t sequence) const {
  const SeriesWindow last = WindowOf(data, sequence);
  if (Forecasts() || !each_step) return {{last}};
  std::vector<AnsweredWindow> windows;
  int64_t read = data.sequences[sequence].before;
  for (; read < last.first; read += longest) windows.push_back({{sequence, read, longest}});
  if (!data.sequences[sequence].goes_on) windows.push_back({last, read - last.first});
  return windows;
}

int64_t SeriesForm::Answers(const std::vector<SeriesWindow>& windows) const {
  int64_t answers = 0;
  for (const SeriesWindow& window : windows) answers += Answered(window.steps);
  return answers;
}

void SeriesForm::AddWindows(int64_t sequence, int64_t begin, int64_t end, std::vector<SeriesWindow>& windows) const {
  for (int64_t last = std::max(begin, context) - 1; last + horizon < end; ++last)
    windows.push_back({sequence, last - context + 1, context});
}

bool SeriesForm::ForetellsGap(const SeriesData& data, const SeriesWindow& window) const {
  const auto gap = std::ranges::find(marks.gaps, target);
  if (gap == marks.gaps.end()) return false;
  const SeriesSequence& sequence = data.sequences[window.sequence];
  const int64_t each = numbers(), mark = std::ssize(features) + (gap - marks.gaps.begin());
  for (int64_t step = window.end(); step < window.end() + horizon; ++step) {
    if (sequence.features[step * each + mark] != 0) return true;
  }
  return false;
}

SeriesBatch SeriesForm::Make(const SeriesData& data, const std::vector<SeriesWindow>& windows, Targets targets) const {
  SeriesBatch batch;
  batch.rows = std::ssize(windows);
  for (const SeriesWindow& window : windows) batch.steps = std::max(batch.steps, window.steps);
  batch.features.assign(batch.rows * batch.steps * width(), 0.0F);
  batch.times.assign(batch.rows * batch.steps, 0.0);
  for (int64_t row = 0; row < batch.rows; ++row) Fill(data, windows[row], row, targets, batch);
  return batch;
}

void SeriesForm::ForEach(const SeriesData& data, const std::vector<SeriesWindow>& windows, Targets targets,
                         const Visit& visit) const {
  const int64_t at_once = std::max<int64_t>(1, kStepsAtOnce / steps()), count = std::ssize(windows);
  for (int64_t first = 0; first < count; first += at_once)
    visit(Make(data, {windows.begin() + first, windows.begin() + std::min(count, first + at_once)}, targets));
}

void SeriesForm::Fill(const SeriesData& data, const SeriesWindow& window, int64_t row, Targets targets,
                      SeriesBatch& batch) const {
  const SeriesSequence& sequence = data.sequences[window.sequence];
  const int64_t each = numbers(), wide = width();
  batch.lengths.push_back(window.steps);
  for (int64_t i = 0; i < batch.steps; ++i) {
    double& time_of_step = batch.times[row * batch.steps + i];
    if (!has_times) time_of_step = static_cast<double>(i);
    if (i >= window.steps) continue;
    const int64_t step = window.first + i;
    float* const out = &batch.features[(row * batch.steps + i) * wide];
    const double* const values = &sequence.features[step * each];
    FillFeatures(*this, values, step == 0 ? nullptr : values - each, out);
    if (has_times) {
      time_of_step = (sequence.times[step] - sequence.times[window.first]) / typical_step;
      FillTime(*this, sequence.times[step], step == 0 ? nullptr : &sequence.times[step - 1], out);
    }
    const bool last_only = Forecasts() && targets != Targets::kAll;
    if (each_step && (!last_only || i + 1 == window.steps)) Score(sequence, window, row, i, targets, batch);
  }
  if (!each_step) Score(sequence, window, row, 0, targets, batch);
}

void SeriesForm::Score(const SeriesSequence& sequence, const SeriesWindow& window, int64_t row, int64_t step, Targets targets,
                       SeriesBatch& batch) const {
  batch.scored.push_back(each_step ? row * batch.steps + step : row);
  if (targets == Targets::kNone) return;
  const int64_t place = each_step ? window.first + step : 0;
  if (Classifies()) {
    batch.classes.push_back(static_cast<int64_t>(sequence.targets[place]));
  } else if (!Forecasts()) {
    batch.values.push_back(static_cast<float>((sequence.targets[place] - target_mean) / target_scale));
  } else {
    for (int64_t h = 1; h <= horizon; ++h)
      batch.values.push_back(static_cast<float>((sequence.targets[place + h] - sequence.targets[place]) / target_scale));
  }
}

void RequireMagnitudes(const SeriesData& data) {
  for (const SeriesSequence& sequence : data.sequences) {
    const auto require = [&](double value, int64_t step, const std::string& column) {
      if (std::abs(value) <= kLargest) return;
      if (std::isnan(value)) {
        throw FileError(data.Place(sequence, step, column) +
                        "the sequence begins without a value of the target; leave out the rows before the first value");
      }
      throw FileError(data.Place(sequence, step, column) + FormatNumber(value) +
                      " is beyond 1e100, too large to compute with; give the column in another unit");
    };
    ForEachFeature(data, sequence,
                   [&](double value, int64_t step, int64_t feature) { require(value, step, data.features[feature]); });
    for (int64_t i = 0; i < std::ssize(sequence.times); ++i) require(sequence.times[i], i, data.time);
    for (int64_t i = 0; Foretells(data) && i < std::ssize(sequence.targets); ++i) require(sequence.targets[i], i, data.target);
  }
}

void RequireStandardised(const SeriesData& data, const SeriesForm& form) {
  const double target_deviation = std::min(form.target_deviation, form.target_scale);
  if (Foretells(data) && target_deviation < kLeastDeviation) {
    throw FileError(data.name + ": column '" + ShownName(data.target) + "': its values differ by about " +
                    FormatNumber(target_deviation) + "; their squares underflow: give it in another unit");
  }
  for (const SeriesSequence& sequence : data.sequences) {
    const auto require = [&](double value, double mean, double deviation, int64_t step, const std::string& column) {
      if (std::abs((value - mean) / deviation) <= kLargestStandardised) return;
      throw FileError(data.Place(sequence, step, column) + FormatNumber(value) +
                      " lies more than 1e15 deviations from the mean of the training part (" + FormatNumber(mean) +
                      ", deviation " + FormatNumber(deviation) + "); is it a mistake?");
    };
    ForEachFeature(data, sequence, [&](double value, int64_t step, int64_t feature) {
      require(value, form.mean[feature], form.deviation[feature], step, data.features[feature]);
    });
    for (int64_t i = 0; Foretells(data) && i < std::ssize(sequence.targets); ++i) {
      require(sequence.targets[i], form.target_mean, target_deviation, i, data.target);
    }
  }
}

void RequireComputable(const SeriesData& data, const SeriesForm& form) {
  RequireMagnitudes(data);
  RequireStandardised(data, form);
  if (form.has_times) RequireTimes(data, form.typical_step, form.steps(), form.Forecasts());
}

}  // namespace heed::lab
