#include "lab/series/calendar.h"

#include <algorithm>
#include <memory>
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
  Forecaster foretell = CalendarForecaster(batches.data(), batches.target_scale(), batches.outputs(), form, past);
  return {Setting(form), std::move(foretell), {"calendar", KeptFields(form)}};
}

}  // namespace

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
        if (!logs || HasLogarithms(batches.data())) forms.push_back({periods, harmonics, batches.typical_step(), line, logs});
      }
    }
  }
  return FitBest(batches, forms,
                 [&](const Calendar& form, const std::vector<SeriesWindow>& past) { return FitForm(batches, form, past); });
}

}  // namespace heed::lab
