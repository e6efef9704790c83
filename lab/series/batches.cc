#include "lab/series/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/error.h"
#include "lab/series/magnitudes.h"

namespace heed::lab {
namespace {

constexpr uint64_t kSplitSeed = 314159;  // any fixed number: all runs are measured on the same sequences
constexpr int64_t kMostWindows = 512;    // of a forecast's validation, evenly spread
constexpr int64_t kStepsAtOnce = 8192;   // of an evaluation, which bounds its memory

struct Moments {
  double mean = 0, deviation = 1;
};

// What never changes but by rounding, some 45 units in the last place of its mean, has a deviation of 1 and so stays near 0.
Moments MomentsOf(const std::vector<double>& values) {
  const double count = static_cast<double>(values.size()), first = values.front();
  double sum = 0, squares = 0, largest = 0;
  for (const double value : values) sum += value - first;  // the sum of equal values themselves is rounded once a value
  const double mean = first + sum / count;
  for (const double value : values) largest = std::max(largest, std::abs(value - mean));
  // A power of two, which changes no digit but keeps the squares of small numbers from vanishing.
  const double unit = largest > 0 ? std::exp2(std::max(-1000, std::ilogb(largest))) : 1;
  for (const double value : values) squares += (value - mean) / unit * ((value - mean) / unit);
  const double deviation = unit * std::sqrt(squares / count);
  return {mean, deviation > 1e-14 * std::abs(mean) ? deviation : 1.0};
}

double Median(std::vector<double> values) {
  if (values.empty()) return 1;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

SeriesBatches::SeriesBatches(const SeriesData& data, const SeriesOptions& options)
    : data_(data), batch_(options.batch), context_(options.context), horizon_(options.horizon), cut_(options.longest) {
  RequireMagnitudes(data_);
  if (Forecasts()) {
    SplitTimes(options.validation);
  } else {
    SplitSequences(options.validation);
  }
  Standardise();
}

int64_t SeriesBatches::outputs() const {
  if (Forecasts()) return horizon_;
  return data_.goal == SeriesGoal::kClassification ? std::ssize(data_.classes) : 1;
}

int64_t SeriesBatches::longest() const { return Forecasts() ? context_ : std::min(cut_, data_.Longest()); }

SeriesBatches::Window SeriesBatches::WholeOf(int64_t sequence) const {
  const int64_t steps = data_.sequences[sequence].steps, kept = std::min(steps, cut_);
  return {sequence, steps - kept, kept};
}

void SeriesBatches::SplitSequences(double share) {
  const int64_t count = std::ssize(data_.sequences);
  const int64_t validation = std::max<int64_t>(1, std::llround(share * static_cast<double>(count)));
  if (count - validation < 1) {
    throw InvalidArgument("sequence: " + data_.name + " has " + std::to_string(count) +
                          " sequence(s); at least 2 are needed to train on some and measure on others (which column tells "
                          "sequences apart?)");
  }
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  Random random(kSplitSeed);
  for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[static_cast<int64_t>(random.Below(i + 1))]);
  std::sort(order.begin(), order.begin() + validation);
  std::sort(order.begin() + validation, order.end());
  training_ends_.assign(count, 0);
  for (int64_t i = 0; i < count; ++i) {
    if (i < validation) {
      validation_.push_back(WholeOf(order[i]));
    } else {
      training_.push_back(order[i]);
      training_ends_[order[i]] = data_.sequences[order[i]].steps;
    }
  }
  training_count_ = std::ssize(training_);
}

void SeriesBatches::SplitTimes(double share) {
  std::vector<Window> all;
  for (int64_t s = 0; s < std::ssize(data_.sequences); ++s) {
    const int64_t steps = data_.sequences[s].steps;
    const int64_t end = steps - std::max<int64_t>(1, std::llround(share * static_cast<double>(steps)));
    training_.push_back(s);
    training_ends_.push_back(end);
    training_count_ += std::max<int64_t>(0, end - context_ - horizon_ + 1);
    starts_.push_back(training_count_);
    for (int64_t last = std::max(end, context_) - 1; last + horizon_ < steps; ++last)
      all.push_back({s, last - context_ + 1, context_});
  }
  if (training_count_ == 0 || all.empty()) {
    throw InvalidArgument("context: windows of " + std::to_string(context_) + " steps and " + std::to_string(horizon_) +
                          " to foretell do not fit the sequences of " + data_.name + ", the longest of which has " +
                          std::to_string(data_.Longest()) + " steps, the last fifth for validation");
  }
  const int64_t kept = std::min(kMostWindows, std::ssize(all));
  for (int64_t i = 0; i < kept; ++i) validation_.push_back(all[i * std::ssize(all) / kept]);
}

void SeriesBatches::Standardise() {
  std::vector<std::vector<double>> columns(data_.Width());
  std::vector<double> targets, differences;
  for (const int64_t s : training_) {
    const SeriesSequence& sequence = data_.sequences[s];
    for (int64_t step = 0; step < training_ends_[s]; ++step) {
      for (int64_t f = 0; f < data_.Width(); ++f) columns[f].push_back(sequence.features[step * data_.Width() + f]);
      if (data_.each_step) targets.push_back(sequence.targets[step]);
      if (data_.has_times && step > 0) differences.push_back(sequence.times[step] - sequence.times[step - 1]);
    }
    if (!data_.each_step) targets.push_back(sequence.targets.front());
  }
  for (const std::vector<double>& column : columns) {
    const Moments moments = MomentsOf(column);
    mean_.push_back(moments.mean);
    deviation_.push_back(moments.deviation);
  }
  time_unit_ = Median(std::move(differences));
  if (data_.goal != SeriesGoal::kClassification) {
    const Moments moments = MomentsOf(targets);
    target_mean_ = moments.mean, target_deviation_ = moments.deviation;
  }
  RequireStandardised(data_, {mean_, deviation_, target_mean_, target_deviation_});
  if (data_.has_times) RequireTimes(data_, time_unit_, Forecasts() ? context_ : cut_, Forecasts());
}

SeriesBatch SeriesBatches::Draw(Random& random) const {
  std::vector<Window> windows;
  windows.reserve(batch_);
  for (int64_t i = 0; i < batch_; ++i) {
    const int64_t drawn = static_cast<int64_t>(random.Below(training_count_));
    if (!Forecasts()) {
      windows.push_back(WholeOf(training_[drawn]));
      continue;
    }
    const int64_t sequence = std::upper_bound(starts_.begin(), starts_.end(), drawn) - starts_.begin();
    windows.push_back({sequence, drawn - (sequence > 0 ? starts_[sequence - 1] : 0), context_});
  }
  return Make(windows, /*last_step_only=*/false);
}

void SeriesBatches::ForEachValidation(const std::function<void(const SeriesBatch&)>& visit) const {
  const int64_t at_once = std::max<int64_t>(1, kStepsAtOnce / longest());
  for (int64_t first = 0; first < validation_count(); first += at_once) {
    const int64_t last = std::min(validation_count(), first + at_once);
    visit(Make({validation_.begin() + first, validation_.begin() + last}, Forecasts()));
  }
}

SeriesBatch SeriesBatches::Make(const std::vector<Window>& windows, bool last_step_only) const {
  SeriesBatch batch;
  batch.rows = std::ssize(windows);
  for (const Window& window : windows) batch.steps = std::max(batch.steps, window.steps);
  batch.features.assign(batch.rows * batch.steps * width(), 0.0F);
  batch.times.assign(batch.rows * batch.steps, 0.0);
  for (int64_t row = 0; row < batch.rows; ++row) Fill(windows[row], row, last_step_only, batch);
  return batch;
}

void SeriesBatches::Fill(const Window& window, int64_t row, bool last_step_only, SeriesBatch& batch) const {
  const SeriesSequence& sequence = data_.sequences[window.sequence];
  batch.lengths.push_back(window.steps);
  for (int64_t i = 0; i < batch.steps; ++i) {
    double& time = batch.times[row * batch.steps + i];
    if (!data_.has_times) time = static_cast<double>(i);
    if (i >= window.steps) continue;
    const int64_t step = window.first + i;
    float* const out = &batch.features[(row * batch.steps + i) * width()];
    for (int64_t f = 0; f < data_.Width(); ++f) {
      out[f] = static_cast<float>((sequence.features[step * data_.Width() + f] - mean_[f]) / deviation_[f]);
    }
    if (data_.has_times) {
      time = (sequence.times[step] - sequence.times[window.first]) / time_unit_;
      const double since = step == 0 ? 1 : (sequence.times[step] - sequence.times[step - 1]) / time_unit_;
      out[data_.Width()] = static_cast<float>(std::log(since));
    }
    if (data_.each_step && (!last_step_only || i + 1 == window.steps)) Score(window, row, i, batch);
  }
  if (!data_.each_step) Score(window, row, 0, batch);
}

void SeriesBatches::Score(const Window& window, int64_t row, int64_t step, SeriesBatch& batch) const {
  const SeriesSequence& sequence = data_.sequences[window.sequence];
  const int64_t place = data_.each_step ? window.first + step : 0;
  batch.scored.push_back(data_.each_step ? row * batch.steps + step : row);
  if (data_.goal == SeriesGoal::kClassification) {
    batch.classes.push_back(static_cast<int64_t>(sequence.targets[place]));
  } else if (!Forecasts()) {
    batch.values.push_back(static_cast<float>((sequence.targets[place] - target_mean_) / target_deviation_));
  } else {
    for (int64_t h = 1; h <= horizon_; ++h) {
      batch.values.push_back(static_cast<float>((sequence.targets[place + h] - sequence.targets[place]) / target_deviation_));
    }
  }
}

SeriesBaseline SeriesBatches::Baseline() const {
  SeriesBaseline baseline;
  double count = 0;
  if (data_.goal != SeriesGoal::kClassification) {
    // Standardised targets are distances from the mean, those of a forecast from the last value.
    ForEachValidation([&](const SeriesBatch& batch) {
      for (const float value : batch.values) baseline.loss += static_cast<double>(value) * static_cast<double>(value);
      count += static_cast<double>(batch.values.size());
    });
    baseline.name = Forecasts() ? "last value" : "mean";
    baseline.loss *= error_scale() / count;
    return baseline;
  }
  std::vector<double> counts(data_.classes.size(), 1.0);  // one more than counted: never 0
  for (const int64_t s : training_) {
    for (const double target : data_.sequences[s].targets) counts[static_cast<std::size_t>(target)] += 1;
  }
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const auto commonest = std::max_element(counts.begin(), counts.end()) - counts.begin();
  ForEachValidation([&](const SeriesBatch& batch) {
    for (const int64_t answer : batch.classes) {
      baseline.loss -= std::log(counts[answer] / total);
      baseline.accuracy += answer == commonest ? 1 : 0;
    }
    count += static_cast<double>(batch.classes.size());
  });
  baseline.name = "commonest class";
  baseline.loss /= count, baseline.accuracy /= count;
  return baseline;
}

}  // namespace heed::lab
