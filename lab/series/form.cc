#include "lab/series/form.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"

namespace heed::lab {
namespace {

constexpr int64_t kStepsAtOnce = 8192;  // of an evaluation, which bounds its memory
constexpr int64_t kMostExtent = int64_t{1} << 20;
constexpr double kFarthest = 1e15;  // in typical changes; squares of a float are finite up to there

}  // namespace

SeriesWindow SeriesForm::WindowOf(const SeriesData& data, int64_t sequence) const {
  const int64_t all = data.sequences[sequence].steps, kept = std::min(all, steps());
  return {sequence, all - kept, kept};
}

void SeriesForm::AddWindows(int64_t sequence, int64_t begin, int64_t end, std::vector<SeriesWindow>& windows) const {
  for (int64_t last = std::max(begin, context) - 1; last + horizon < end; ++last)
    windows.push_back({sequence, last - context + 1, context});
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

// Levels may leave the range of the training part for good, where no model has learned anything; changes seldom do.
void SeriesForm::FillFeatures(const SeriesSequence& sequence, int64_t step, float* out) const {
  const int64_t columns = std::ssize(features);
  const double* const values = &sequence.features[step * columns];
  for (int64_t f = 0; f < columns; ++f) {
    if (!Forecasts()) {
      out[f] = static_cast<float>((values[f] - mean[f]) / deviation[f]);
      continue;
    }
    const double moved = step == 0 ? 0 : (values[f] - values[f - columns]) / change[f];
    out[f] = static_cast<float>(std::clamp(moved, -kFarthest, kFarthest));
  }
}

void SeriesForm::Fill(const SeriesData& data, const SeriesWindow& window, int64_t row, Targets targets,
                      SeriesBatch& batch) const {
  const SeriesSequence& sequence = data.sequences[window.sequence];
  batch.lengths.push_back(window.steps);
  for (int64_t i = 0; i < batch.steps; ++i) {
    double& time_of_step = batch.times[row * batch.steps + i];
    if (!has_times) time_of_step = static_cast<double>(i);
    if (i >= window.steps) continue;
    const int64_t step = window.first + i;
    float* const out = &batch.features[(row * batch.steps + i) * width()];
    FillFeatures(sequence, step, out);
    if (has_times) {
      time_of_step = (sequence.times[step] - sequence.times[window.first]) / typical_step;
      const double since = step == 0 ? 1 : (sequence.times[step] - sequence.times[step - 1]) / typical_step;
      out[width() - 1] = static_cast<float>(std::log(since));
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

Fields FieldsOf(SeriesForm& form) {
  const auto plain = [](std::string name, Field::Value value) { return Field{.name = std::move(name), .value = value}; };
  return {plain("goal", &form.goal),
          plain("target", &form.target),
          plain("sequence", &form.sequence),
          plain("time", &form.time),
          plain("features", &form.features),
          plain("classes", &form.classes),
          plain("each_step", &form.each_step),
          plain("has_times", &form.has_times),
          plain("has_dates", &form.has_dates),
          plain("context", &form.context),
          plain("horizon", &form.horizon),
          plain("longest", &form.longest),
          plain("mean", &form.mean),
          plain("deviation", &form.deviation),
          plain("change", &form.change),
          plain("target_mean", &form.target_mean),
          plain("target_deviation", &form.target_deviation),
          plain("target_scale", &form.target_scale),
          plain("typical_step", &form.typical_step)};
}

void Validate(const SeriesForm& form) {
  ParseSeriesGoal(form.goal);
  for (const auto& [name, value] : {std::pair("context", form.context), {"horizon", form.horizon}, {"longest", form.longest}}) {
    if (value < 1 || value > kMostExtent)
      throw InvalidArgument(fmt::format("{}: {} is not in 1 to {}", name, value, kMostExtent));
  }
  if (form.Forecasts() && !form.each_step) throw InvalidArgument("each_step: a forecast has a target at each step");
  if (form.Classifies() == form.classes.empty()) throw InvalidArgument("classes: expected those of a classification alone");
  const auto require = [&](const char* name, const std::vector<double>& values, bool positive) {
    if (values.size() != form.features.size())
      throw InvalidArgument(
          fmt::format("{}: expected a number for each of {} features, got {}", name, form.features.size(), values.size()));
    for (const double value : values) {
      if (!std::isfinite(value) || (positive && !(value > 0)))
        throw InvalidArgument(fmt::format("{}: {} is no scale", name, value));
    }
  };
  if (form.features.empty()) throw InvalidArgument("features: expected one or more");
  require("mean", form.mean, false), require("deviation", form.deviation, true), require("change", form.change, true);
  for (const double scale : {form.target_deviation, form.target_scale, form.typical_step}) {
    if (!std::isfinite(scale) || !(scale > 0))
      throw InvalidArgument(fmt::format("target_deviation, target_scale, typical_step: {} is no scale", scale));
  }
}

}  // namespace heed::lab
