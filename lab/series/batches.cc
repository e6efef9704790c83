#include "lab/series/batches.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>

#include "heed/error.h"
#include "lab/series/form.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostBlocks = 32;  // of the test part
// Where parts cut sequences: fewer windows of the test part say little of how the loss varies, shorter ones hide what is
// before.
constexpr int64_t kWindowsOfTest = 8, kShortestWindow = 16;

constexpr double kRounding = 1e-14;  // beside a mean

// The root of the mean of squares that are too small or too large for a double themselves.
double RootMeanSquare(const std::vector<double>& values, double centre) {
  double largest = 0, squares = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value - centre));
  // A power of two, which changes no digit but keeps the squares of small numbers from vanishing.
  const double unit = largest > 0 ? std::exp2(std::max(-1000, std::ilogb(largest))) : 1;
  for (const double value : values) squares += (value - centre) / unit * ((value - centre) / unit);
  return unit * std::sqrt(squares / static_cast<double>(values.size()));
}

using Visit = std::function<void(double)>;

// The values of a column in a part: feature `column`, or the target for -1.
void ForEachValue(const SeriesData& data, const std::vector<SeriesWindow>& part, int64_t column, const Visit& visit) {
  const int64_t each = data.numbers();
  for (const SeriesWindow& window : part) {
    const SeriesSequence& sequence = data.sequences[window.sequence];
    if (column < 0 && !data.each_step) {
      visit(sequence.targets.front());
      continue;
    }
    for (int64_t step = window.first; step < window.end(); ++step) {
      visit(column < 0 ? sequence.targets[step] : sequence.features[step * each + column]);
    }
  }
}

SeriesRange RangeOf(const SeriesBatches& batches, int64_t column) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const SeriesData& data = batches.data();
  SeriesRange range{column < 0 ? data.target : data.features[column], kInfinity, -kInfinity, kInfinity, -kInfinity};
  ForEachValue(data, batches.training_steps(), column,
               [&](double value) { range.low = std::min(range.low, value), range.high = std::max(range.high, value); });
  double count = 0;
  ForEachValue(data, batches.test_steps(), column, [&](double value) {
    range.test_low = std::min(range.test_low, value), range.test_high = std::max(range.test_high, value);
    range.outside += value < range.low || value > range.high ? 1 : 0;
    count += 1;
  });
  range.outside /= count;
  return range;
}

struct Moments {
  double mean = 0, deviation = 1;
};

// At least one value. What never changes but by rounding, some 45 units in the last place of its mean, has a deviation of 1 and
// so stays near 0.
Moments MomentsOf(const std::vector<double>& values) {
  const double first = values.front();
  double sum = 0;
  for (const double value : values) sum += value - first;  // the sum of equal values themselves is rounded once a value
  const double mean = first + sum / static_cast<double>(values.size());
  const double deviation = RootMeanSquare(values, mean);
  return {mean, deviation > kRounding * std::abs(mean) ? deviation : 1.0};
}

// 1 of nothing.
double Median(std::vector<double> values) {
  if (values.empty()) return 1;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

SeriesBatches::SeriesBatches(const SeriesData& data, const SeriesCut& cut) : data_(data), cut_(cut), form_{data} {
  RequireMagnitudes(data_);
  form_.context = cut.context, form_.horizon = cut.horizon, form_.longest = std::min(cut.longest, data.Longest());
  parts_ = SplitOf(data_, cut_.share);
  Forecasts() ? SplitByTime() : SplitInWindows();
  Standardise();
}

// Windows of these steps of a sequence: the last ones where it has one target, else all.
void SeriesBatches::AddWindows(const SeriesWindow& steps, std::vector<SeriesWindow>& windows) const {
  if (steps.steps == 0) return;
  if (!form_.each_step) return windows.push_back(form_.WindowOf(data_, steps.sequence));
  for (int64_t first = steps.first; first < steps.end(); first += form_.longest)
    windows.push_back({steps.sequence, first, std::min(form_.longest, steps.end() - first)});
}

void SeriesBatches::SplitInWindows() {
  for (int64_t s = 0; s < std::ssize(data_.sequences); ++s) {
    const auto [training, validation] = parts_[s];
    if (training > 0) training_.push_back({s, 0, training});
    if (const int64_t steps = data_.sequences[s].steps - validation; steps > 0) test_steps_.push_back({s, validation, steps});
  }
  if (CutsSequences(data_)) {
    int64_t steps = 0;
    for (const SeriesWindow& one : test_steps_) steps += one.steps;
    form_.longest = std::min(form_.longest, std::max(kShortestWindow, steps / kWindowsOfTest));
  }
  for (const SeriesWindow& steps : training_) AddWindows(steps, training_windows_);
  for (const SeriesWindow& steps : test_steps_) AddWindows(steps, test_);
  for (int64_t s = 0; s < std::ssize(data_.sequences); ++s)
    AddWindows({s, parts_[s].training_end, parts_[s].validation_end - parts_[s].training_end}, validation_);
  training_count_ = std::ssize(training_windows_);
  if (training_.empty() || validation_.empty() || test_.empty()) {
    throw InvalidArgument("part: expected sequences of " + data_.name + " to train, to validate and to test, got " +
                          std::to_string(training_windows_.size()) + ", " + std::to_string(validation_.size()) + " and " +
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
    form_.AddWindows(s, parts.training_end, parts.validation_end, validation_);
    form_.AddWindows(s, parts.validation_end, steps, test_);
  }
  DropGaps(validation_), DropGaps(test_);
  if (training_count_ == 0 || validation_.empty() || test_.empty()) {
    throw InvalidArgument("context: windows of " + std::to_string(cut_.context) + " steps and " + std::to_string(cut_.horizon) +
                          " to predict do not fit the sequences of " + data_.name + ", the longest of which has " +
                          std::to_string(data_.Longest()) + " steps, the end of which is for validation and for testing");
  }
  validation_ = EvenlySpread(std::move(validation_), kMostForecasts);
  test_ = EvenlySpread(std::move(test_), kMostForecasts);
}

std::vector<SeriesWindow> SeriesBatches::StepsBeforeTest() const {
  std::vector<SeriesWindow> before = test_steps_;
  for (SeriesWindow& steps : before) steps = {steps.sequence, 0, steps.first};
  return before;
}

// What stands for a missing value is no answer to be scored.
void SeriesBatches::DropGaps(std::vector<SeriesWindow>& windows) const {
  const std::size_t all = windows.size();
  std::erase_if(windows, [this](const SeriesWindow& window) { return form_.ForetellsGap(data_, window); });
  if (windows.empty() && all > 0) {
    throw InvalidArgument("target: each window for validation or test predicts a missing value of '" + data_.target + "' in " +
                          data_.name + "; predict fewer steps by --horizon, or fill the gaps in");
  }
}

void SeriesBatches::Standardise() {
  form_.mean.clear(), form_.deviation.clear(), form_.change.clear(), form_.periods.clear();
  std::vector<std::vector<double>> columns(std::ssize(data_.features)), changes(std::ssize(data_.features));
  std::vector<double> targets, differences;
  const int64_t each = data_.numbers();
  for (const SeriesWindow& part : training_) {
    const SeriesSequence& sequence = data_.sequences[part.sequence];
    for (int64_t step = 0; step < part.steps; ++step) {
      for (int64_t f = 0; f < std::ssize(data_.features); ++f) {
        const int64_t place = step * each + f;
        const double value = sequence.features[place];
        if (std::isnan(value)) continue;  // before the first that is known
        columns[f].push_back(value);
        const double before = step > 0 ? sequence.features[place - each] : NAN;
        if (Forecasts() && !std::isnan(before)) changes[f].push_back(value - before);
      }
      if (data_.each_step) targets.push_back(sequence.targets[step]);
      if (data_.has_times && step > 0) differences.push_back(sequence.times[step] - sequence.times[step - 1]);
    }
    if (!data_.each_step) targets.push_back(sequence.targets.front());
  }
  for (int64_t f = 0; f < std::ssize(data_.features); ++f) {
    if (columns[f].empty()) columns[f].push_back(0);  // none is known in the training part
    const Moments moments = MomentsOf(columns[f]);
    form_.mean.push_back(moments.mean), form_.deviation.push_back(moments.deviation);
    form_.change.push_back(ScaleOfChanges(changes[f], moments.mean));
  }
  form_.typical_step = Median(std::move(differences));
  if (Forecasts() && form_.has_dates) form_.periods = PeriodsSeen();
  StandardiseTarget(targets);
  RequireComputable(data_, form_);
}

std::vector<std::string> SeriesBatches::PeriodsSeen() const {
  double span = 0;
  for (const SeriesWindow& part : training_) {
    const std::vector<double>& times = data_.sequences[part.sequence].times;
    if (part.steps > 0) span = std::max(span, times[part.steps - 1] - times[0]);
  }
  std::vector<std::string> periods;
  for (const CalendarPeriod& period : kCalendarPeriods) {
    const bool seen = span >= kPeriodsSeen * period.seconds;
    if (seen && 2 * form_.typical_step <= period.seconds) periods.emplace_back(period.name);
  }
  return periods;
}

void SeriesBatches::StandardiseTarget(const std::vector<double>& targets) {
  Moments moments;
  if (!data_.Classifies()) moments = MomentsOf(targets);
  form_.target_mean = moments.mean, form_.target_scale = moments.deviation;
  if (Forecasts()) form_.target_scale = ScaleOfChanges(ForetoldChanges(), moments.mean);
  form_.target_deviation = moments.deviation;
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
  if (!Forecasts()) return training_windows_[index];
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
  return form_.Make(data_, windows, Targets::kAll);
}

void SeriesBatches::ForEach(const std::vector<SeriesWindow>& windows, const Visit& visit) const {
  form_.ForEach(data_, windows, Targets::kLast, visit);
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

LossSums MeansOver(const std::vector<std::vector<SeriesWindow>>& blocks,
                   const std::function<LossSums(const std::vector<SeriesWindow>& windows)>& sums_of,
                   std::vector<double>& losses) {
  LossSums all;
  for (const std::vector<SeriesWindow>& block : blocks) {
    const LossSums tally = sums_of(block);
    losses.push_back(tally.loss / tally.answers);
    all.loss += tally.loss, all.right += tally.right, all.answers += tally.answers;
  }
  all.loss /= all.answers, all.right /= all.answers;
  return all;
}

double ScaleOfChanges(const std::vector<double>& changes, double mean) {
  if (changes.empty()) return 1;
  const double scale = RootMeanSquare(changes, 0);
  return scale > kRounding * std::abs(mean) ? scale : 1.0;
}

std::vector<SeriesRange> RangesLeft(const SeriesBatches& batches) {
  const SeriesData& data = batches.data();
  const bool target = !data.Classifies() && std::ranges::find(data.features, data.target) == data.features.end();
  std::vector<SeriesRange> ranges;
  for (int64_t column = target ? -1 : 0; column < std::ssize(data.features); ++column) {
    SeriesRange range = RangeOf(batches, column);
    if (range.outside > 0) ranges.push_back(std::move(range));
  }
  std::ranges::stable_sort(ranges, std::ranges::greater(), &SeriesRange::outside);
  return ranges;
}

}  // namespace heed::lab
