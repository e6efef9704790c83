#include "lab/series/smoothing.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <string>

#include <fmt/core.h>

#include "lab/series/season.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostSmoothed = 1 << 16;  // values by whose errors the rates are chosen
// Quarters, weekdays, months, hours and half hours of a day, weeks, quarter hours, hours of a week, days of a year.
constexpr int64_t kCommonSeasons[] = {4, 7, 12, 24, 48, 52, 96, 168, 365};
constexpr double kLevelRates[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1}, kTrendRates[] = {0, 0.01, 0.03, 0.1, 0.2, 0.4},
                 kSeasonRates[] = {0, 0.05, 0.1, 0.2, 0.4, 0.7, 1}, kDampings[] = {0.8, 0.9, 0.95, 0.98, 1};
constexpr int kMostSweeps = 4;  // over the four rates, which seldom change in a third

double MeanOfRun(const std::vector<double>& values, int64_t first, int64_t count) {
  return std::accumulate(values.begin() + first, values.begin() + first + count, 0.0) / static_cast<double>(count);
}

struct SmoothingForm {
  int64_t season;
  bool logs;
};

// What is smoothed: the target of each sequence, or its logarithms.
struct SmoothedSequence {
  std::vector<double> values;
  int64_t fitted = 0;  // of them
};

std::vector<SmoothedSequence> SequencesOf(const SeriesBatches& batches, const std::vector<SeriesWindow>& past, bool logs) {
  std::vector<SmoothedSequence> sequences;
  for (const SeriesWindow& part : past) {
    SmoothedSequence& one = sequences.emplace_back();
    one.values = batches.data().sequences[part.sequence].targets, one.fitted = part.steps;
    for (double& value : one.values) value = logs ? std::log(value) : value / batches.target_scale();
  }
  return sequences;
}

// A sequence of fewer than two seasons has none.
int64_t SeasonOf(const SmoothedSequence& sequence, int64_t season) { return sequence.fitted < 2 * season ? 1 : season; }

// The rates with the least one-step errors on what is fitted, one after the other until none changes.
SmoothingRates FitRates(const std::vector<SmoothedSequence>& sequences, int64_t season) {
  const auto error_of = [&](const SmoothingRates& rates) {
    if (Interrupted()) throw Interruption("interrupted while a forecast was fitted");
    double sum = 0;
    int64_t left = kMostSmoothed;
    for (const SmoothedSequence& one : sequences) {
      const int64_t fitted = std::min(left, one.fitted);
      if (fitted >= 2) sum += Smooth(one.values, SeasonOf(one, season), rates, fitted, nullptr);
      left -= fitted;
    }
    return sum;
  };
  SmoothingRates best{.level = 0.3, .trend = 0.03, .season = season == 1 ? 0 : 0.1, .damping = 0.98};
  double least = error_of(best);
  bool changed = true;
  const auto choose = [&](double SmoothingRates::*rate, const auto& tried) {
    for (const double value : tried) {
      SmoothingRates rates = best;
      rates.*rate = value;
      if (const double error = error_of(rates); error < least) least = error, best = rates, changed = true;
    }
  };
  for (int sweep = 0; sweep < kMostSweeps && changed; ++sweep) {
    changed = false;
    choose(&SmoothingRates::level, kLevelRates);
    choose(&SmoothingRates::trend, kTrendRates);
    choose(&SmoothingRates::damping, kDampings);
    if (season > 1) choose(&SmoothingRates::season, kSeasonRates);
  }
  return best;
}

FittedForecast FitSmoothingForm(const SeriesBatches& batches, const SmoothingForm& form,
                                const std::vector<SeriesWindow>& past) {
  const std::vector<SmoothedSequence> sequences = SequencesOf(batches, past, form.logs);
  const SmoothingRates rates = FitRates(sequences, form.season);
  auto parts = std::make_shared<std::vector<SmoothedParts>>(sequences.size());
  std::vector<int64_t> seasons;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    seasons.push_back(SeasonOf(sequences[i], form.season));
    if (std::ssize(sequences[i].values) >= 2) Smooth(sequences[i].values, seasons.back(), rates, 0, &(*parts)[i]);
  }
  const double unit = batches.target_scale();
  std::string setting = form.season == 1 ? "no season" : fmt::format("season of {} steps", form.season);
  if (form.logs) setting += ", on logarithms";
  return {setting, [=, logs = form.logs](const SeriesWindow& window, std::vector<double>& values) {
            const SmoothedParts& of = (*parts)[window.sequence];
            const int64_t last = window.end() - 1, cycle = seasons[window.sequence];
            double trend = 0, damping = 1;
            for (int64_t h = 0; h < std::ssize(values); ++h) {
              damping *= rates.damping, trend += damping * of.trend[last];
              const double value = of.level[last] + trend + of.season[last - cycle + 1 + h % cycle];
              values[h] = logs ? std::exp(value) : value * unit;
            }
          }};
}

}  // namespace

double Smooth(const std::vector<double>& values, int64_t season, const SmoothingRates& rates, int64_t fitted,
              SmoothedParts* parts) {
  const int64_t count = parts == nullptr ? fitted : std::ssize(values);
  const bool seasonal = season > 1 && count >= 2 * season;
  const int64_t first = seasonal ? season : 1;
  double level = MeanOfRun(values, 0, first), trend = 0, errors = 0;
  std::vector<double> own, &seasons = parts == nullptr ? own : parts->season;
  seasons.assign(count, 0.0);
  if (parts != nullptr) parts->level.assign(count, level), parts->trend.assign(count, 0.0);
  if (seasonal) {
    const double middle = static_cast<double>(season - 1) / 2;
    trend = (MeanOfRun(values, season, season) - level) / static_cast<double>(season);
    for (int64_t i = 0; i < season; ++i) seasons[i] = values[i] - level - trend * (static_cast<double>(i) - middle);
    level += trend * middle;
  }
  for (int64_t i = first; i < count; ++i) {
    const double before = seasonal ? seasons[i - season] : 0, ahead = level + rates.damping * trend;
    const double error = values[i] - ahead - before;
    level = ahead + rates.level * error;
    trend = rates.damping * trend + rates.level * rates.trend * error;
    if (seasonal) seasons[i] = before + rates.season * (1 - rates.level) * error;
    if (i < fitted) errors += error * error;
    if (parts != nullptr) parts->level[i] = level, parts->trend[i] = trend;
  }
  return errors;
}

FittedForecast FitSmoothing(const SeriesBatches& batches) {
  int64_t longest = 0;
  for (const SeriesWindow& part : batches.training_steps()) longest = std::max(longest, part.steps);
  std::set<int64_t> seasons(std::begin(kCommonSeasons), std::end(kCommonSeasons));
  seasons.insert({1, BestSeason(batches)});
  std::vector<SmoothingForm> forms;
  for (const bool logs : {false, true}) {
    for (const int64_t season : seasons) {
      if (2 * season <= longest && (!logs || HasLogarithms(batches.data()))) forms.push_back({season, logs});
    }
  }
  return FitBest(batches, forms, [&](const SmoothingForm& form, const std::vector<SeriesWindow>& past) {
    return FitSmoothingForm(batches, form, past);
  });
}

}  // namespace heed::lab
