#include "lab/series/smoothing.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
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

// What is smoothed: the target of each sequence, or its logarithms.
struct SmoothedSequence {
  std::vector<double> values;
  int64_t fitted = 0;  // of them
};

std::vector<SmoothedSequence> SequencesOf(const SeriesData& data, const ForecastScale& scale,
                                          const std::vector<SeriesWindow>& past) {
  std::vector<SmoothedSequence> sequences;
  for (const SeriesWindow& part : past) {
    SmoothedSequence& one = sequences.emplace_back();
    one.values = data.sequences[part.sequence].targets, one.fitted = part.steps;
    for (double& value : one.values) value = scale.Scaled(value);
  }
  return sequences;
}

// The rates with the least one-step errors on what is fitted, one after the other until none changes.
Smoothing FitRates(const std::vector<SmoothedSequence>& sequences, const Smoothing& form) {
  std::vector<double> seasons;
  const auto error_of = [&](const Smoothing& tried) {
    if (Interrupted()) throw Interruption("interrupted while a forecast was fitted");
    double sum = 0;
    int64_t left = kMostSmoothed;
    for (const SmoothedSequence& one : sequences) {
      const int64_t fitted = std::min(left, one.fitted);
      seasons.resize(fitted < 2 ? 0 : fitted);
      if (fitted >= 2) sum += tried.Smooth(std::span(one.values).first(fitted), tried.SeasonOf(one.fitted), {seasons, {}, {}});
      left -= fitted;
    }
    return sum;
  };
  Smoothing best = form;
  best.level = 0.3, best.trend = 0.03, best.season_rate = form.season == 1 ? 0 : 0.1, best.damping = 0.98;
  double least = error_of(best);
  bool changed = true;
  const auto choose = [&](double Smoothing::*rate, const auto& tried) {
    for (const double value : tried) {
      Smoothing rates = best;
      rates.*rate = value;
      if (const double error = error_of(rates); error < least) least = error, best = rates, changed = true;
    }
  };
  for (int sweep = 0; sweep < kMostSweeps && changed; ++sweep) {
    changed = false;
    choose(&Smoothing::level, kLevelRates);
    choose(&Smoothing::trend, kTrendRates);
    choose(&Smoothing::damping, kDampings);
    if (form.season > 1) choose(&Smoothing::season_rate, kSeasonRates);
  }
  return best;
}

FittedForecast FitSmoothingForm(const SeriesBatches& batches, const Smoothing& form, const std::vector<SeriesWindow>& past) {
  const double unit = batches.target_scale();
  const Smoothing method = FitRates(SequencesOf(batches.data(), {unit, form.logs}, past), form);
  std::string setting = form.season == 1 ? "no season" : fmt::format("season of {} steps", form.season);
  if (form.logs) setting += ", on logarithms";
  return {setting, SmoothingForecaster(batches.data(), unit, method, past), {"smoothing", KeptFields(method)}};
}

}  // namespace

Forecaster SmoothingForecaster(const SeriesData& data, double unit, const Smoothing& method,
                               const std::vector<SeriesWindow>& past) {
  struct Smoothed {
    int64_t cycle;
    std::vector<double> season, level, trend;
    SmoothedParts Parts() { return {season, level, trend}; }
  };
  const ForecastScale scale{unit, method.logs};
  auto smoothed = std::make_shared<std::vector<Smoothed>>();
  for (const SmoothedSequence& one : SequencesOf(data, scale, past)) {
    const std::vector<double> none(one.values.size());
    smoothed->push_back({method.SeasonOf(one.fitted), none, none, none});
    if (!one.values.empty()) method.Smooth(one.values, smoothed->back().cycle, smoothed->back().Parts());
  }
  return [=](const SeriesWindow& window, std::vector<double>& values) {
    Smoothed& of = (*smoothed)[window.sequence];
    method.Foretell(of.Parts(), of.cycle, window.end() - 1, values);
    for (double& value : values) value = scale.Value(value);
  };
}

FittedForecast FitSmoothing(const SeriesBatches& batches) {
  int64_t longest = 0;
  for (const SeriesWindow& part : batches.training_steps()) longest = std::max(longest, part.steps);
  std::set<int64_t> seasons(std::begin(kCommonSeasons), std::end(kCommonSeasons));
  seasons.insert({1, BestSeason(batches)});
  std::vector<Smoothing> forms;
  for (const bool logs : {false, true}) {
    for (const int64_t season : seasons) {
      if (2 * season <= longest && (!logs || HasLogarithms(batches.data()))) forms.push_back({.season = season, .logs = logs});
    }
  }
  return FitBest(batches, forms, [&](const Smoothing& form, const std::vector<SeriesWindow>& past) {
    return FitSmoothingForm(batches, form, past);
  });
}

}  // namespace heed::lab
