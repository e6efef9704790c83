#include "lab/series/calendar.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "lab/runs/contender.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostOfCurve = 1 << 14;  // steps of a sequence that a curve is fitted to, evenly spread
constexpr int64_t kMostPairs = 1 << 24;    // of values and horizons that the shares are fitted to

struct Period {
  std::string_view name;
  double seconds;
};
constexpr Period kPeriods[] = {{"year", 365.2425 * 86400}, {"week", 7 * 86400.0}, {"day", 86400.0}};

int64_t Harmonics(const CalendarForm& form, double seconds) {
  return std::min(form.harmonics, static_cast<int64_t>(std::floor(seconds / (2 * form.step))));
}

// [times, terms].
at::Tensor Terms(const CalendarForm& form, const std::vector<double>& times) {
  const at::Tensor t = at::tensor(times, at::kDouble);
  std::vector<at::Tensor> terms;
  if (form.line) terms.push_back(t / kPeriods[0].seconds);
  for (const std::string& period : form.periods) {
    const double seconds = SecondsOfPeriod(period);
    for (int64_t k = 1; k <= Harmonics(form, seconds); ++k) {
      const at::Tensor angle = t * (2 * std::numbers::pi * static_cast<double>(k) / seconds);
      terms.push_back(angle.cos()), terms.push_back(angle.sin());
    }
  }
  return at::stack(terms, 1);
}

std::string Setting(const CalendarForm& form) {
  std::vector<std::string> names = form.periods;
  if (form.line) names.emplace_back("a line");
  return Join(names) + (form.logs ? ", on logarithms" : "");
}

std::vector<double> Values(const SeriesData& data, double unit, int64_t sequence, bool logs) {
  std::vector<double> values = data.sequences[sequence].targets;
  for (double& value : values) value = logs ? std::log(value) : value / unit;
  return values;
}

// The curve of a sequence at all its steps; at its first value where it has no past. The penalty of the standardised terms is
// the square of how many there are for a step: a long past is hardly penalised, and with a short one the curve is flat.
std::vector<double> CurveOf(const SeriesData& data, const SeriesWindow& past, const CalendarForm& form,
                            const std::vector<double>& values) {
  if (past.steps == 0) return std::vector<double>(values.size(), values.front());
  const std::vector<double>& times = data.sequences[past.sequence].times;
  const at::Tensor X = Terms(form, times), y = at::tensor(values, at::kDouble).unsqueeze(1);
  const int64_t stride = std::max<int64_t>(1, past.steps / kMostOfCurve);
  const at::Tensor seen = X.slice(0, 0, past.steps, stride), level = y.slice(0, 0, past.steps, stride);
  const at::Tensor mean = seen.mean(0), deviation = (seen - mean).square().mean(0).sqrt().clamp_min(1e-12);
  const at::Tensor Z = (seen - mean) / deviation, center = level.mean();
  const double strength = std::pow(static_cast<double>(Z.size(1)) / static_cast<double>(Z.size(0)), 2);
  const at::Tensor squares = Z.t().mm(Z) / Z.size(0) + strength * at::eye(Z.size(1), at::kDouble);
  const at::Tensor W = at::cholesky_solve(Z.t().mm(level - center) / Z.size(0), at::linalg_cholesky(squares));
  const at::Tensor curve = (((X - mean) / deviation).mm(W) + center).contiguous();
  return {curve.const_data_ptr<double>(), curve.const_data_ptr<double>() + curve.numel()};
}

// Of each sequence the curve and what its values lie beside it.
struct Curves {
  std::vector<std::vector<double>> curve, beside;  // [sequences][steps]
};

// Of what a value lies beside the curve, how much is left so many steps later: [outputs].
std::vector<double> SharesLeft(int64_t outputs, const std::vector<SeriesWindow>& past, const Curves& curves) {
  std::vector<double> products(outputs, 0.0), squares(outputs, 0.0);
  int64_t steps = 0;
  for (const SeriesWindow& part : past) steps += part.steps;
  const int64_t stride = 1 + steps * outputs / kMostPairs;
  for (const SeriesWindow& part : past) {
    const std::vector<double>& beside = curves.beside[part.sequence];
    for (int64_t h = 1; h <= outputs; ++h) {
      for (int64_t i = 0; i + h < part.steps; i += stride)
        products[h - 1] += beside[i] * beside[i + h], squares[h - 1] += beside[i] * beside[i];
    }
  }
  for (std::size_t h = 0; h < products.size(); ++h) products[h] = squares[h] > 0 ? products[h] / squares[h] : 0;
  return products;
}

FittedForecast FitCurve(const SeriesBatches& batches, const CalendarForm& form, const std::vector<SeriesWindow>& past) {
  const nlohmann::ordered_json kept = {
      {"periods", form.periods}, {"harmonics", form.harmonics}, {"step", form.step}, {"line", form.line}, {"logs", form.logs}};
  Forecaster foretell = CalendarForecaster(batches.data(), batches.target_scale(), batches.outputs(), form, past);
  return {Setting(form), std::move(foretell), {"calendar", kept}};
}

}  // namespace

double SecondsOfPeriod(const std::string& name) {
  const auto* const found = std::ranges::find(kPeriods, name, &Period::name);
  return found == std::end(kPeriods) ? 0 : found->seconds;
}

Forecaster CalendarForecaster(const SeriesData& data, double unit, int64_t outputs, const CalendarForm& form,
                              const std::vector<SeriesWindow>& past) {
  const at::NoGradGuard no_grad;
  auto curves = std::make_shared<Curves>();
  for (const SeriesWindow& part : past) {
    if (Interrupted()) throw Interruption("interrupted while a calendar was fitted");
    std::vector<double>& beside = curves->beside.emplace_back(Values(data, unit, part.sequence, form.logs));
    const std::vector<double>& curve = curves->curve.emplace_back(CurveOf(data, part, form, beside));
    std::ranges::transform(beside, curve, beside.begin(), std::minus<>());
  }
  return [=, logs = form.logs, left = SharesLeft(outputs, past, *curves)](const SeriesWindow& window,
                                                                          std::vector<double>& values) {
    const std::vector<double>& curve = curves->curve[window.sequence];
    const double beside = curves->beside[window.sequence][window.end() - 1];
    for (int64_t h = 0; h < std::ssize(values); ++h) {
      const double value = curve[window.end() + h] + left[h] * beside;
      values[h] = logs ? std::exp(value) : value * unit;
    }
  };
}

FittedForecast FitCalendar(const SeriesBatches& batches) {
  const at::NoGradGuard no_grad;
  const SeriesData& data = batches.data();
  double span = 0;
  for (const SeriesWindow& part : batches.training_steps()) {
    const std::vector<double>& times = data.sequences[part.sequence].times;
    if (part.steps > 0) span = std::max(span, times[part.steps - 1] - times[0]);
  }
  const double step = batches.typical_step();
  std::vector<std::string> periods;
  for (const Period& period : kPeriods) {
    if (span >= kCalendarPeriods * period.seconds && 2 * step <= period.seconds) periods.emplace_back(period.name);
  }
  if (periods.empty()) return {};
  std::vector<CalendarForm> forms;
  for (const bool logs : {false, true}) {
    for (const bool line : {false, true}) {
      for (const int64_t harmonics : {2, 6}) {
        if (!logs || HasLogarithms(data)) forms.push_back({periods, harmonics, step, line, logs});
      }
    }
  }
  return FitBest(batches, forms, [&](const CalendarForm& form, const std::vector<SeriesWindow>& past) {
    return FitCurve(batches, form, past);
  });
}

}  // namespace heed::lab
