#include "lab/series/batches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/error.h"
#include "lab/series/magnitudes.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostWindows = 512;   // of a forecast's validation and of its test, evenly spread
constexpr int64_t kMostBlocks = 32;     // of the test part
constexpr int64_t kStepsAtOnce = 8192;  // of an evaluation, which bounds its memory
constexpr double kFarthest = 1e15;      // in typical changes; squares of a float are finite up to there

std::vector<SeriesWindow> Thinned(std::vector<SeriesWindow> windows, int64_t most) {
  const int64_t count = std::ssize(windows), kept = std::min(most, count);
  for (int64_t i = 0; i < kept; ++i) windows[i] = windows[i * count / kept];
  windows.resize(kept);
  return windows;
}

}  // namespace

SeriesBatches::SeriesBatches(const SeriesData& data, const SeriesCut& cut) : data_(data), cut_(cut) {
  RequireMagnitudes(data_);
  parts_ = SplitOf(data_, cut_.share);
  Forecasts() ? SplitByTime() : SplitBySequence();
  Standardise();
}

int64_t SeriesBatches::outputs() const {
  if (Forecasts()) return cut_.horizon;
  return data_.goal == SeriesGoal::kClassification ? std::ssize(data_.classes) : 1;
}

int64_t SeriesBatches::longest() const { return Forecasts() ? cut_.context : std::min(cut_.longest, data_.Longest()); }

SeriesWindow SeriesBatches::WholeOf(int64_t sequence) const {
  const int64_t steps = data_.sequences[sequence].steps, kept = std::min(steps, cut_.longest);
  return {sequence, steps - kept, kept};
}

void SeriesBatches::SplitBySequence() {
  for (int64_t s = 0; s < std::ssize(data_.sequences); ++s) {
    const SeriesWindow all{s, 0, data_.sequences[s].steps};
    if (parts_[s].training_end > 0) {
      training_.push_back(all);
    } else if (parts_[s].validation_end > 0) {
      validation_.push_back(WholeOf(s));
    } else {
      test_.push_back(WholeOf(s)), test_steps_.push_back(all);
    }
  }
  training_count_ = std::ssize(training_);
  if (training_.empty() || validation_.empty() || test_.empty()) {
    throw InvalidArgument("part: expected sequences of " + data_.name + " to train, to validate and to test, got " +
                          std::to_string(training_.size()) + ", " + std::to_string(validation_.size()) + " and " +
                          std::to_string(test_.size()));
  }
}

void SeriesBatches::SplitByTime() {
  for (int64_t s = 0; s < std::ssize(data_.sequences); ++s) {
    const int64_t steps = data_.sequences[s].steps;
    const StepParts& parts = parts_[s];
    training_.push_back({s, 0, parts.training_end});
    test_steps_.push_back({s, parts.validation_end, steps - parts.validation_end});
    training_count_ += std::max<int64_t>(0, parts.training_end - cut_.context - cut_.horizon + 1);
    starts_.push_back(training_count_);
    const auto add = [&](int64_t begin, int64_t end, std::vector<SeriesWindow>& windows) {
      for (int64_t last = std::max(begin, cut_.context) - 1; last + cut_.horizon < end; ++last)
        windows.push_back({s, last - cut_.context + 1, cut_.context});
    };
    add(parts.training_end, parts.validation_end, validation_);
    add(parts.validation_end, steps, test_);
  }
  if (training_count_ == 0 || validation_.empty() || test_.empty()) {
    throw InvalidArgument("context: windows of " + std::to_string(cut_.context) + " steps and " + std::to_string(cut_.horizon) +
                          " to foretell do not fit the sequences of " + data_.name + ", the longest of which has " +
                          std::to_string(data_.Longest()) + " steps, the end of which is for validation and for testing");
  }
  validation_ = Thinned(std::move(validation_), kMostWindows);
  test_ = Thinned(std::move(test_), kMostWindows);
}

void SeriesBatches::Standardise() {
  std::vector<std::vector<double>> columns(data_.Width()), changes(data_.Width());
  std::vector<double> targets, differences;
  for (const SeriesWindow& part : training_) {
    const SeriesSequence& sequence = data_.sequences[part.sequence];
    for (int64_t step = 0; step < part.steps; ++step) {
      for (int64_t f = 0; f < data_.Width(); ++f) {
        const int64_t place = step * data_.Width() + f;
        columns[f].push_back(sequence.features[place]);
        if (Forecasts() && step > 0) changes[f].push_back(sequence.features[place] - sequence.features[place - data_.Width()]);
      }
      if (data_.each_step) targets.push_back(sequence.targets[step]);
      if (data_.has_times && step > 0) differences.push_back(sequence.times[step] - sequence.times[step - 1]);
    }
    if (!data_.each_step) targets.push_back(sequence.targets.front());
  }
  for (int64_t f = 0; f < data_.Width(); ++f) {
    const Moments moments = MomentsOf(columns[f]);
    scales_.push_back({moments, ScaleOfChanges(changes[f], moments.mean)});
  }
  time_unit_ = Median(std::move(differences));
  StandardiseTarget(targets);
  if (data_.has_times) RequireTimes(data_, time_unit_, Forecasts() ? cut_.context : cut_.longest, Forecasts());
}

void SeriesBatches::StandardiseTarget(const std::vector<double>& targets) {
  Moments moments;
  if (data_.goal != SeriesGoal::kClassification) moments = MomentsOf(targets);
  target_mean_ = moments.mean, target_scale_ = moments.deviation;
  if (Forecasts()) target_scale_ = ScaleOfChanges(ForetoldChanges(), moments.mean);
  std::vector<double> means, deviations;
  for (const Scale& scale : scales_) {
    means.push_back(scale.moments.mean);
    deviations.push_back(scale.moments.deviation);
  }
  RequireStandardised(data_, {means, deviations, target_mean_, std::min(moments.deviation, target_scale_)});
}

// Within the training part, from each step to the farthest that is foretold.
std::vector<double> SeriesBatches::ForetoldChanges() const {
  std::vector<double> changes;
  for (const SeriesWindow& part : training_) {
    const std::vector<double>& targets = data_.sequences[part.sequence].targets;
    for (int64_t step = 0; step + cut_.horizon < part.steps; ++step)
      changes.push_back(targets[step + cut_.horizon] - targets[step]);
  }
  return changes;
}

SeriesWindow SeriesBatches::TrainingWindow(int64_t index) const {
  if (!Forecasts()) return WholeOf(training_[index].sequence);
  const int64_t sequence = std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin();
  return {sequence, index - (sequence > 0 ? starts_[sequence - 1] : 0), cut_.context};
}

std::vector<SeriesWindow> SeriesBatches::TrainingWindows(int64_t most) const {
  std::vector<SeriesWindow> windows;
  const int64_t kept = std::min(most, training_count_);
  for (int64_t i = 0; i < kept; ++i) windows.push_back(TrainingWindow(i * training_count_ / kept));
  return windows;
}

SeriesBatch SeriesBatches::Draw(Random& random) const {
  std::vector<SeriesWindow> windows;
  windows.reserve(cut_.batch);
  for (int64_t i = 0; i < cut_.batch; ++i) {
    windows.push_back(TrainingWindow(static_cast<int64_t>(random.Below(training_count_))));
  }
  return Make(windows, /*last_step_only=*/false);
}

void SeriesBatches::ForEach(const std::vector<SeriesWindow>& windows, const Visit& visit) const {
  const int64_t at_once = std::max<int64_t>(1, kStepsAtOnce / longest()), count = std::ssize(windows);
  for (int64_t first = 0; first < count; first += at_once) {
    visit(Make({windows.begin() + first, windows.begin() + std::min(count, first + at_once)}));
  }
}

SeriesBatch SeriesBatches::Make(const std::vector<SeriesWindow>& windows, bool last_step_only) const {
  SeriesBatch batch;
  batch.rows = std::ssize(windows);
  for (const SeriesWindow& window : windows) batch.steps = std::max(batch.steps, window.steps);
  batch.features.assign(batch.rows * batch.steps * width(), 0.0F);
  batch.times.assign(batch.rows * batch.steps, 0.0);
  for (int64_t row = 0; row < batch.rows; ++row) Fill(windows[row], row, last_step_only, batch);
  return batch;
}

// Levels may leave the range of the training part for good, where no model has learned anything; changes seldom do.
void SeriesBatches::FillFeatures(const SeriesSequence& sequence, int64_t step, float* out) const {
  const double* const values = &sequence.features[step * data_.Width()];
  for (int64_t f = 0; f < data_.Width(); ++f) {
    const Scale& scale = scales_[f];
    if (!Forecasts()) {
      out[f] = static_cast<float>((values[f] - scale.moments.mean) / scale.moments.deviation);
      continue;
    }
    const double change = step == 0 ? 0 : (values[f] - values[f - data_.Width()]) / scale.change;
    out[f] = static_cast<float>(std::clamp(change, -kFarthest, kFarthest));
  }
}

void SeriesBatches::Fill(const SeriesWindow& window, int64_t row, bool last_step_only, SeriesBatch& batch) const {
  const SeriesSequence& sequence = data_.sequences[window.sequence];
  batch.lengths.push_back(window.steps);
  for (int64_t i = 0; i < batch.steps; ++i) {
    double& time = batch.times[row * batch.steps + i];
    if (!data_.has_times) time = static_cast<double>(i);
    if (i >= window.steps) continue;
    const int64_t step = window.first + i;
    float* const out = &batch.features[(row * batch.steps + i) * width()];
    FillFeatures(sequence, step, out);
    if (data_.has_times) {
      time = (sequence.times[step] - sequence.times[window.first]) / time_unit_;
      const double since = step == 0 ? 1 : (sequence.times[step] - sequence.times[step - 1]) / time_unit_;
      out[width() - 1] = static_cast<float>(std::log(since));
    }
    if (data_.each_step && (!last_step_only || i + 1 == window.steps)) Score(window, row, i, batch);
  }
  if (!data_.each_step) Score(window, row, 0, batch);
}

void SeriesBatches::Score(const SeriesWindow& window, int64_t row, int64_t step, SeriesBatch& batch) const {
  const SeriesSequence& sequence = data_.sequences[window.sequence];
  const int64_t place = data_.each_step ? window.first + step : 0;
  batch.scored.push_back(data_.each_step ? row * batch.steps + step : row);
  if (data_.goal == SeriesGoal::kClassification) {
    batch.classes.push_back(static_cast<int64_t>(sequence.targets[place]));
  } else if (!Forecasts()) {
    batch.values.push_back(static_cast<float>((sequence.targets[place] - target_mean_) / target_scale_));
  } else {
    for (int64_t h = 1; h <= cut_.horizon; ++h) {
      batch.values.push_back(static_cast<float>((sequence.targets[place + h] - sequence.targets[place]) / target_scale_));
    }
  }
}

std::vector<std::vector<SeriesWindow>> SeriesBatches::Blocks(const std::vector<SeriesWindow>& windows) const {
  const int64_t all = std::ssize(windows);
  int64_t least = 1;  // windows of a block
  if (Forecasts()) {
    // Steps that the windows of the part move by, those of different sequences end to end.
    int64_t steps = 0;
    for (int64_t i = 1; i < all; ++i) {
      if (windows[i].sequence == windows[i - 1].sequence) steps += windows[i].first - windows[i - 1].first;
    }
    const int64_t span = cut_.context + cut_.horizon;
    least = steps == 0 ? 1 : (span * all + steps - 1) / std::max<int64_t>(1, steps);
  }
  const int64_t count = std::clamp<int64_t>(all / least, 1, kMostBlocks);
  std::vector<std::vector<SeriesWindow>> blocks;
  blocks.reserve(count);
  for (int64_t b = 0; b < count; ++b)
    blocks.emplace_back(windows.begin() + b * all / count, windows.begin() + (b + 1) * all / count);
  return blocks;
}

Baseline SeriesBatches::SimpleAnswer(const std::vector<std::vector<SeriesWindow>>& blocks) const {
  const bool classifies = data_.goal == SeriesGoal::kClassification;
  Baseline baseline;
  baseline.looks = false;
  baseline.name = classifies ? "commonest class" : Forecasts() ? "last value" : "mean";
  std::vector<double> counts(data_.classes.size(), 1.0);  // one more than counted: never 0
  for (const SeriesWindow& part : classifies ? training_ : std::vector<SeriesWindow>()) {
    for (const double target : data_.sequences[part.sequence].targets) counts[static_cast<std::size_t>(target)] += 1;
  }
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  const auto commonest = std::max_element(counts.begin(), counts.end()) - counts.begin();
  double all = 0;
  for (const std::vector<SeriesWindow>& block : blocks) {
    double sum = 0, count = 0;
    ForEach(block, [&](const SeriesBatch& batch) {
      // Standardised targets are distances from the mean, those of a forecast from the last value.
      for (const float value : batch.values) sum += static_cast<double>(value) * static_cast<double>(value) * error_scale();
      for (const int64_t answer : batch.classes) {
        sum -= std::log(counts[answer] / total);
        baseline.accuracy += answer == commonest ? 1 : 0;
      }
      count += static_cast<double>(classifies ? batch.classes.size() : batch.values.size());
    });
    baseline.blocks.push_back(sum / count);
    baseline.loss += sum, all += count;
  }
  baseline.loss /= all, baseline.accuracy /= all;
  return baseline;
}

}  // namespace heed::lab
