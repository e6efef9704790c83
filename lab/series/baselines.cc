#include "lab/series/baselines.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include "lab/report/progress.h"
#include "lab/series/examples.h"
#include "lab/series/forecast.h"
#include "lab/training/interrupt.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostRows = 8192;            // of training examples
constexpr int64_t kMostNumbers = 1 << 23;      // of all their cells and answers: 64 MiB
constexpr int64_t kMostProducts = 1 << 26;     // of a step of logistic regression, which takes some hundred
constexpr int64_t kMostDistances = 1LL << 34;  // cells that are compared to find neighbours
constexpr int64_t kMostValidation = 2048;      // rows by which a setting is chosen
constexpr int64_t kLeastRows = 64;             // however large

int64_t Bounded(int64_t most, int64_t each) { return std::clamp(most / std::max<int64_t>(1, each), kLeastRows, kMostRows); }

using LossesOf = std::function<LossSums(const std::vector<SeriesWindow>& windows)>;

// Fills in the numbers of a baseline, by what was fitted without the validation part and by what reports on the test part.
void FillNumbers(const SeriesBatches& batches, const LossesOf& validating, const LossesOf& testing, Baseline* baseline) {
  const LossSums validation = validating(batches.validation_windows());
  baseline->validation = validation.loss / validation.answers;
  const LossSums test = MeansOver(batches.TestBlocks(), testing, baseline->blocks);
  baseline->loss = test.loss, baseline->accuracy = test.right;
}

LossSums LossesBy(const SeriesBatches& batches, const SeriesExamples& examples, const Method& answer,
                  const std::vector<SeriesWindow>& windows) {
  LossSums sums;
  examples.ForEach(windows, [&](const Examples& some) {
    const at::Tensor answers = answer(some.X);
    sums.loss += MeanLoss(answers, some.y) * static_cast<double>(some.rows()) * batches.form().error_scale();
    if (some.classes()) sums.right += answers.argmax(1).eq(some.y).sum().item<double>();
    sums.answers += static_cast<double>(some.rows());
  });
  return sums;
}

// Regression, or nearest neighbours: chooses by the validation part, then fits again to that part too.
Baseline MeasureRows(const SeriesBatches& batches, RowOf row_of, bool regression) {
  const at::NoGradGuard no_grad;
  const SeriesExamples examples(batches, row_of);
  const int64_t cells = examples.cells(), outputs = examples.outputs(), classes = batches.data().Classifies() ? outputs : 0;
  int64_t most = Bounded(kMostNumbers, cells + outputs);
  if (!regression) most = std::min(most, Bounded(kMostDistances, (examples.MeasuredRows() + kMostValidation) * cells));
  if (regression && classes > 0) most = std::min(most, Bounded(kMostProducts, cells * outputs));
  const Examples training = examples.Training(most), validation = examples.Validation(std::min(most, kMostValidation));
  const FittedMethod chosen = (regression ? FitLinear : FitNeighbours)(training, validation, classes);
  FittedMethod method = chosen.again({at::cat({training.X, validation.X}), at::cat({training.y, validation.y})});
  const char* name = !regression ? "nearest neighbours" : classes > 0 ? "logistic regression" : "ridge regression";
  Baseline baseline{.name = name, .setting = method.setting, .limits = examples.Limits(most)};
  if (row_of == RowOf::kSummary) baseline.name += " on summaries";
  method.kept.settings["steps"] = row_of != RowOf::kSummary;
  method.kept.settings["summaries"] = row_of != RowOf::kSteps;
  method.kept.settings["lengths_differ"] = LengthsDiffer(batches);
  baseline.kept = std::move(method.kept);
  const auto by = [&](const Method& answer) {
    return [&](const std::vector<SeriesWindow>& windows) { return LossesBy(batches, examples, answer, windows); };
  };
  FillNumbers(batches, by(chosen.answer), by(method.answer), &baseline);
  return baseline;
}

// Of a method that looks at past targets alone.
Baseline MeasureForecast(const SeriesBatches& batches, const std::string& name, const FittedForecast& forecast) {
  Baseline baseline{.name = name, .setting = forecast.setting, .loss = NAN, .validation = forecast.validation, .looks = false};
  if (!forecast.foretell) return baseline;
  baseline.kept = forecast.kept;
  baseline.loss = ForecastLoss(batches, batches.test_windows(), forecast.foretell);
  for (const std::vector<SeriesWindow>& block : batches.TestBlocks())
    baseline.blocks.push_back(ForecastLoss(batches, block, forecast.foretell));
  return baseline;
}

Baseline Season(const SeriesBatches& batches) {
  const int64_t season = BestSeason(batches);
  const Forecaster foretell = LastSeason(batches.data(), season);
  return MeasureForecast(batches, "last season",
                         {fmt::format("{} steps", season),
                          foretell,
                          {"season", KeptFields(RepeatedSeason{season})},
                          ForecastLoss(batches, batches.validation_windows(), foretell)});
}

}  // namespace

Baseline SimpleAnswer(const SeriesBatches& batches) {
  const SeriesData& data = batches.data();
  const bool classifies = data.Classifies(), forecasts = data.Forecasts();
  Baseline baseline{.name = classifies ? "commonest class" : forecasts ? "last value" : "mean", .looks = false};
  std::vector<double> counts(data.classes.size(), 1.0);  // one more than counted: never 0
  for (const SeriesWindow& part : classifies ? batches.training_steps() : std::vector<SeriesWindow>()) {
    const std::vector<double>& targets = data.sequences[part.sequence].targets;
    const std::span<const double> learned =
        std::span(targets).subspan(data.each_step ? part.first : 0, data.each_step ? part.steps : 1);
    for (const double target : learned) counts[static_cast<std::size_t>(target)] += 1;
  }
  const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
  baseline.kept.kind = "simple";
  for (const double count : counts) baseline.kept.settings["shares"].push_back(count / total);
  const auto commonest = std::max_element(counts.begin(), counts.end()) - counts.begin();
  const auto sums_of = [&](const std::vector<SeriesWindow>& windows) {
    LossSums sums;
    batches.ForEach(windows, [&](const SeriesBatch& batch) {
      // Standardised targets are distances from the mean, those of a forecast from the last value.
      for (const float value : batch.values)
        sums.loss += std::pow(static_cast<double>(value), 2) * batches.form().error_scale();
      for (const int64_t answer : batch.classes) {
        sums.loss -= std::log(counts[answer] / total);
        sums.right += answer == commonest ? 1 : 0;
      }
      sums.answers += static_cast<double>(classifies ? batch.classes.size() : batch.values.size());
    });
    return sums;
  };
  FillNumbers(batches, sums_of, sums_of, &baseline);
  return baseline;
}

std::vector<Baseline> SeriesBaselines(const SeriesBatches& batches, int threads) {
  std::vector<std::function<Baseline(const SeriesBatches&)>> methods = {SimpleAnswer};
  if (batches.data().Forecasts()) {
    methods.emplace_back(Season);
    methods.emplace_back([](const SeriesBatches& some) { return MeasureForecast(some, "Holt-Winters", FitSmoothing(some)); });
    if (batches.data().has_dates)
      methods.emplace_back([](const SeriesBatches& some) { return MeasureForecast(some, "calendar", FitCalendar(some)); });
  }
  const RowOf all = batches.pooled() ? RowOf::kBoth : RowOf::kSteps;
  methods.emplace_back([all](const SeriesBatches& some) { return MeasureRows(some, all, /*regression=*/true); });
  if (batches.pooled())
    methods.emplace_back([](const SeriesBatches& some) { return MeasureRows(some, RowOf::kSummary, /*regression=*/true); });
  methods.emplace_back([](const SeriesBatches& some) { return MeasureRows(some, RowOf::kSteps, /*regression=*/false); });
  std::vector<Baseline> baselines(methods.size());
  Progress progress("simple methods", std::ssize(methods), /*quiet=*/true);
  SideBySide(std::ssize(methods), threads, progress, 0, [&](int64_t i, std::atomic<int64_t>& done) {
    baselines[i] = methods[i](batches);
    ++done;
    return baselines[i].name;
  });
  // What a table of numbers cannot hold is no answer.
  std::erase_if(baselines, [](const Baseline& baseline) { return !std::isfinite(baseline.loss + baseline.validation); });
  return baselines;
}

}  // namespace heed::lab
