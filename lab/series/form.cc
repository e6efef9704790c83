#include "lab/series/form.h"

#include <algorithm>

namespace heed::lab {
namespace {

constexpr int64_t kStepsAtOnce = 8192;  // of an evaluation, which bounds its memory

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

}  // namespace heed::lab
