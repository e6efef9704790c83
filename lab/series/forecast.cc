#include "lab/series/forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "heed/past_forecasts.h"
#include "lab/runs/contender.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostSquares = int64_t{1} << 28;  // that are summed to choose a season

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
  const double unit = batches.form().target_scale;
  const Smoothing method = FitRates(SequencesOf(batches.data(), {unit, form.logs}, past), form);
  std::string setting = form.season == 1 ? "no season" : fmt::format("season of {} steps", form.season);
  if (form.logs) setting += ", on logarithms";
  return {setting, SmoothingForecaster(batches.data(), unit, method, past), {"smoothing", KeptFields(method)}};
}

std::string Setting(const Calendar& form) {
  std::vector<std::string> names = form.periods;
  if (form.line) names.emplace_back("a line");
  return Join(names) + (form.logs ? ", on logarithms" : "");
}

constexpr int64_t kFits = 8;  // of a curve as its sequence grows; each costs as much as the first

// The curve of a sequence in the scale of the method, fitted anew as more of it becomes known.
class GrowingCurve {
 public:
  GrowingCurve(const SeriesSequence& sequence, const ForecastScale& scale, const Calendar& method, int64_t known)
      : sequence_(sequence), scale_(scale), method_(method), known_(known) {
    Fit(known);
  }

  double Beside(int64_t step) const { return scale_.Scaled(sequence_.targets[step]) - curve_[step]; }
  double At(int64_t step) const { return curve_[step]; }
  // The last of its fits that sees no step from `end` on.
  void GrowTo(int64_t end) {
    const int64_t grows = std::ssize(sequence_.targets) - known_;
    const int64_t fit = grows == 0 ? 0 : std::clamp<int64_t>((end - known_) * kFits / grows, 0, kFits - 1);
    if (const int64_t known = known_ + grows * fit / kFits; known != fitted_) Fit(known);
  }

 private:
  void Fit(int64_t known) {
    if (Interrupted()) throw Interruption("interrupted while a calendar was fitted");
    fitted_ = known;
    // Where a sequence has no past, its curve is its first value.
    curve_.assign(sequence_.targets.size(), scale_.Scaled(sequence_.targets.front()));
    if (known == 0) return;
    std::vector<double> scaled(known);
    for (int64_t i = 0; i < known; ++i) scaled[i] = scale_.Scaled(sequence_.targets[i]);
    ModelWorkspace workspace;
    method_.FitCurve(sequence_.times, scaled, curve_, workspace);
  }

  const SeriesSequence& sequence_;
  ForecastScale scale_;
  Calendar method_;
  int64_t known_, fitted_ = 0;  // steps of the first fit, and of the last
  std::vector<double> curve_;
};

FittedForecast FitForm(const SeriesBatches& batches, const Calendar& form, const std::vector<SeriesWindow>& past) {
  Forecaster foretell = CalendarForecaster(batches.data(), batches.form().target_scale, batches.form().outputs(), form, past);
  return {Setting(form), std::move(foretell), {"calendar", KeptFields(form)}};
}

}  // namespace

double ForecastLoss(const SeriesBatches& batches, const std::vector<SeriesWindow>& windows, const Forecaster& foretell) {
  std::vector<double> values(batches.form().outputs());
  double sum = 0;
  for (const SeriesWindow& window : windows) {
    if (Interrupted()) throw Interruption("interrupted while a forecast was measured");
    const std::vector<double>& targets = batches.data().sequences[window.sequence].targets;
    foretell(window, values);
    for (int64_t h = 0; h < batches.form().outputs(); ++h)
      sum += std::pow((targets[window.end() + h] - values[h]) / batches.form().target_scale, 2);
  }
  return sum * batches.form().error_scale() / static_cast<double>(std::ssize(windows) * batches.form().outputs());
}

bool HasLogarithms(const SeriesData& data) {
  return std::ranges::all_of(data.sequences, [](const SeriesSequence& sequence) {
    return std::ranges::all_of(sequence.targets, [](double value) { return value > 0; });
  });
}

Forecaster LastSeason(const SeriesData& data, int64_t season) {
  return [&data, method = RepeatedSeason{season}](const SeriesWindow& window, std::vector<double>& values) {
    const std::span<const double> targets = data.sequences[window.sequence].targets;
    method.Foretell(targets.first(window.end()), values);
  };
}

int64_t BestSeason(const SeriesBatches& batches) {
  const int64_t squares = batches.form().steps() * batches.form().outputs();
  const std::vector<SeriesWindow> windows =
      EvenlySpread(batches.validation_windows(), std::max<int64_t>(1, kMostSquares / squares));
  int64_t best = 2;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t season = 2; season <= batches.form().steps(); ++season) {
    const double loss = ForecastLoss(batches, windows, LastSeason(batches.data(), season));
    if (loss < least) least = loss, best = season;
  }
  return best;
}

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

Forecaster CalendarForecaster(const SeriesData& data, double unit, int64_t outputs, const Calendar& method,
                              const std::vector<SeriesWindow>& past) {
  const ForecastScale scale{unit, method.logs};
  ModelWorkspace workspace;
  const ModelWorkspace::Frame frame(workspace);
  auto curves = std::make_shared<std::vector<GrowingCurve>>();
  auto shares = std::make_shared<std::vector<double>>(outputs);
  int64_t steps = 0;
  for (const SeriesWindow& part : past) steps += part.steps;
  SharesLeft left(*shares, steps, workspace);
  for (const SeriesWindow& part : past) {
    const GrowingCurve& curve = curves->emplace_back(data.sequences[part.sequence], scale, method, part.steps);
    std::vector<double> beside(part.steps);
    for (int64_t i = 0; i < part.steps; ++i) beside[i] = curve.Beside(i);
    left.Add(beside);
  }
  left.Finish();
  return [=](const SeriesWindow& window, std::vector<double>& values) {
    GrowingCurve& curve = (*curves)[window.sequence];
    curve.GrowTo(window.end());
    const double beside = curve.Beside(window.end() - 1);
    for (int64_t h = 0; h < std::ssize(values); ++h)
      values[h] = scale.Value(curve.At(window.end() + h) + (*shares)[h] * beside);
  };
}

FittedForecast FitCalendar(const SeriesBatches& batches) {
  const std::vector<std::string>& periods = batches.form().periods;
  if (periods.empty()) return {};
  std::vector<Calendar> forms;
  for (const bool logs : {false, true}) {
    for (const bool line : {false, true}) {
      for (const int64_t harmonics : {2, 6}) {
        if (!logs || HasLogarithms(batches.data()))
          forms.push_back({periods, harmonics, batches.form().typical_step, line, logs});
      }
    }
  }
  return FitBest(batches, forms,
                 [&](const Calendar& form, const std::vector<SeriesWindow>& past) { return FitForm(batches, form, past); });
}

}  // namespace heed::lab
