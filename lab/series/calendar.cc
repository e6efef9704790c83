#include "lab/series/calendar.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lab/runs/contender.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

std::string Setting(const Calendar& form) {
  std::vector<std::string> names = form.periods;
  if (form.line) names.emplace_back("a line");
  return Join(names) + (form.logs ? ", on logarithms" : "");
}

// Of each sequence the curve at all its steps and what its values lie beside it, in the scale of the method.
struct Curves {
  std::vector<std::vector<double>> curve, beside;  // [sequences][steps]
  std::vector<double> left;                        // [outputs], see SharesLeft
};

FittedForecast FitCurve(const SeriesBatches& batches, const Calendar& form, const std::vector<SeriesWindow>& past) {
  Forecaster foretell = CalendarForecaster(batches.data(), batches.target_scale(), batches.outputs(), form, past);
  return {Setting(form), std::move(foretell), {"calendar", SettingsOfMethod(form)}};
}

}  // namespace

Forecaster CalendarForecaster(const SeriesData& data, double unit, int64_t outputs, const Calendar& method,
                              const std::vector<SeriesWindow>& past) {
  const ForecastScale scale{unit, method.logs};
  ModelWorkspace workspace;
  const ModelWorkspace::Frame frame(workspace);
  auto curves = std::make_shared<Curves>();
  curves->left.resize(outputs);
  int64_t steps = 0;
  for (const SeriesWindow& part : past) steps += part.steps;
  SharesLeft left(curves->left, steps, workspace);
  for (const SeriesWindow& part : past) {
    if (Interrupted()) throw Interruption("interrupted while a calendar was fitted");
    const SeriesSequence& sequence = data.sequences[part.sequence];
    std::vector<double>& beside = curves->beside.emplace_back(sequence.targets);
    for (double& value : beside) value = scale.Scaled(value);
    const std::span<const double> known = std::span(beside).first(part.steps);
    // Where a sequence has no past, its curve is its first value.
    std::vector<double>& curve = curves->curve.emplace_back(beside.size(), beside.front());
    if (part.steps > 0) method.FitCurve(sequence.times, known, curve, workspace);
    std::ranges::transform(beside, curve, beside.begin(), std::minus<>());
    left.Add(known);
  }
  left.Finish();
  return [=](const SeriesWindow& window, std::vector<double>& values) {
    const std::vector<double>& curve = curves->curve[window.sequence];
    const double beside = curves->beside[window.sequence][window.end() - 1];
    for (int64_t h = 0; h < std::ssize(values); ++h)
      values[h] = scale.Value(curve[window.end() + h] + curves->left[h] * beside);
  };
}

FittedForecast FitCalendar(const SeriesBatches& batches) {
  const SeriesData& data = batches.data();
  double span = 0;
  for (const SeriesWindow& part : batches.training_steps()) {
    const std::vector<double>& times = data.sequences[part.sequence].times;
    if (part.steps > 0) span = std::max(span, times[part.steps - 1] - times[0]);
  }
  const double step = batches.typical_step();
  std::vector<std::string> periods;
  for (const CalendarPeriod& period : kCalendarPeriods) {
    if (span >= kPeriodsSeen * period.seconds && 2 * step <= period.seconds) periods.emplace_back(period.name);
  }
  if (periods.empty()) return {};
  std::vector<Calendar> forms;
  for (const bool logs : {false, true}) {
    for (const bool line : {false, true}) {
      for (const int64_t harmonics : {2, 6}) {
        if (!logs || HasLogarithms(data)) forms.push_back({periods, harmonics, step, line, logs});
      }
    }
  }
  return FitBest(batches, forms,
                 [&](const Calendar& form, const std::vector<SeriesWindow>& past) { return FitCurve(batches, form, past); });
}

}  // namespace heed::lab
