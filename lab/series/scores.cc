#include "lab/series/scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "lab/data/view.h"
#include "lab/series/magnitudes.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

// Of a class against the rest: how often one of it is more probable than one of the rest, where equals count half.
double AreaUnderCurve(const std::vector<double>& probability, const std::vector<bool>& is) {
  std::vector<std::size_t> order(is.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return probability[i]; });
  double ranks = 0, count = 0;
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && probability[order[end]] == probability[order[first]]) ++end;
    const double rank = 0.5 * static_cast<double>(first + end + 1);  // from 1, in the mean
    for (; first < end; ++first) {
      if (is[order[first]]) ranks += rank, count += 1;
    }
  }
  const double rest = static_cast<double>(is.size()) - count;
  return (ranks - count * (count + 1) / 2) / (count * rest);
}

std::vector<std::pair<std::string, double>> OfClasses(const at::Tensor& answers, const std::vector<int64_t>& truth) {
  const int64_t classes = answers.size(1);
  const auto count = static_cast<double>(truth.size());
  const at::Tensor truths = at::tensor(truth, at::kLong), chosen = answers.argmax(1);
  const double loss = -answers.gather(1, truths.unsqueeze(1)).log().mean().item<double>();
  double f1 = 0, occurring = 0, area = 0, areas = 0;
  for (int64_t c = 0; c < classes; ++c) {
    const at::Tensor is = truths.eq(c), said = chosen.eq(c);
    const double of_it = is.sum().item<double>(), told = said.sum().item<double>();
    if (of_it == 0) continue;
    occurring += 1, f1 += 2 * is.logical_and(said).sum().item<double>() / (of_it + told);
    if (of_it == count || (classes == 2 && areas == 1)) continue;
    std::vector<double> probability;
    std::vector<bool> flags;
    for (std::size_t i = 0; i < truth.size(); ++i)
      probability.push_back(answers[static_cast<int64_t>(i)][c].item<double>()), flags.push_back(truth[i] == c);
    areas += 1, area += AreaUnderCurve(probability, flags);
  }
  return {{"loss", loss},
          {"accuracy", chosen.eq(truths).sum().item<double>() / count},
          {"macro_f1", f1 / occurring},
          {"auc", areas == 0 ? NAN : area / areas}};
}

// What lies beside answers, [scored, outputs], and the bounds of the intervals.
struct Errors {
  at::Tensor beside, low, high;

  double Coverage() const { return beside.ge(low).logical_and(beside.le(high)).to(at::kDouble).mean().item<double>(); }
  static double PinballOf(const at::Tensor& above, double quantile) {
    return at::maximum(quantile * above, (quantile - 1) * above).mean().item<double>();
  }
  double Pinball() const { return (PinballOf(beside - low, 0.1) + PinballOf(beside - high, 0.9)) / 2; }
};

// The mean change from step to step of each window's sequence before the scored part, [windows, 1].
at::Tensor NaiveErrors(const SeriesData& data, const std::vector<SeriesWindow>& windows,
                       const std::vector<SeriesWindow>& past) {
  std::vector<double> mean(data.sequences.size(), 0.0), of_window;
  for (const SeriesWindow& part : past) {
    const std::vector<double>& values = data.sequences[part.sequence].targets;
    for (int64_t i = 1; i < part.steps; ++i)
      mean[part.sequence] += std::abs(values[i] - values[i - 1]) / static_cast<double>(part.steps - 1);
  }
  of_window.reserve(windows.size());
  for (const SeriesWindow& window : windows) of_window.push_back(mean[window.sequence]);
  return at::tensor(of_window, at::kDouble).unsqueeze(1);
}

// Of a forecast the scored windows, and what comes before the scored part; else all sequences.
void Choose(const SeriesForm& form, const SeriesData& data, double share, std::vector<SeriesWindow>& windows,
            std::vector<SeriesWindow>& past) {
  for (int64_t s = 0; s < std::ssize(data.sequences); ++s) {
    const int64_t steps = data.sequences[s].steps, begin = SplitSteps(steps, share).validation_end;
    past.push_back({s, 0, form.Forecasts() ? begin : steps});
    if (!form.Forecasts()) {
      windows.push_back(form.WindowOf(data, s));
    } else {
      form.AddWindows(s, begin, steps, windows);
    }
  }
  if (form.Forecasts()) windows = EvenlySpread(std::move(windows), kMostForecasts);
  if (windows.empty()) {
    throw FileError(
        fmt::format("{}: windows of {} steps and {} to foretell do not fit its sequences, the longest of which has {}",
                    data.name, form.context, form.horizon, data.Longest()));
  }
}

at::Tensor Answered(const SeriesAnswers& answers, const std::vector<SeriesWindow>& windows,
                    const std::function<void(int64_t, int64_t)>& on_windows) {
  constexpr int64_t kAtOnce = 512;
  const int64_t count = std::ssize(windows);
  std::vector<at::Tensor> some;
  for (int64_t first = 0; first < count; first += kAtOnce) {
    if (Interrupted()) throw Interruption("interrupted during an evaluation");
    const int64_t end = std::min(count, first + kAtOnce);
    some.push_back(answers({windows.begin() + first, windows.begin() + end}));
    if (on_windows) on_windows(end, count);
  }
  return at::cat(some);
}

}  // namespace

SeriesScores ScoresOf(const KeptModel& model, const SeriesData& data, double share,
                      const std::function<void(int64_t done, int64_t of)>& on_windows) {
  RequireComputable(data, model.form);
  const SeriesForm& form = model.form;
  std::vector<SeriesWindow> windows, past;
  Choose(form, data, share, windows, past);
  std::vector<int64_t> classes;
  std::vector<at::Tensor> values;
  form.ForEach(data, windows, Targets::kLast, [&](const SeriesBatch& batch) {
    classes.insert(classes.end(), batch.classes.begin(), batch.classes.end());
    if (!batch.values.empty()) values.push_back(View(batch.values, {std::ssize(batch.scored), form.outputs()}).clone());
  });
  const at::Tensor answers = Answered(CheckedAnswers(model, data, past), windows, on_windows);
  if (form.Classifies()) return {std::ssize(classes), OfClasses(answers, classes)};
  const at::Tensor truth = InOwnUnits(form, data, windows, at::cat(values));
  const Errors errors{truth - answers, at::tensor(model.low, at::kDouble), at::tensor(model.high, at::kDouble)};
  const double mse = errors.beside.square().mean().item<double>(), mae = errors.beside.abs().mean().item<double>();
  SeriesScores scores{truth.numel(), {{"mse", mse}, {"mae", mae}}};
  if (form.Forecasts()) {
    scores.numbers.emplace_back("mase", (errors.beside.abs() / NaiveErrors(data, windows, past)).mean().item<double>());
    scores.numbers.emplace_back("pinball", errors.Pinball());
  } else {
    scores.numbers.emplace_back("r2", 1 - mse / (truth - truth.mean()).square().mean().item<double>());
  }
  scores.numbers.emplace_back("coverage", errors.Coverage());
  return scores;
}

}  // namespace heed::lab
