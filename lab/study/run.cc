#include "lab/study/run.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "heed/error.h"
#include "lab/positions/scheme_table.h"
#include "lab/training/evaluation.h"
#include "lab/training/fit.h"
#include "lab/training/initialisation.h"
#include "lab/training/trainer.h"

namespace heed::lab {
namespace {

constexpr int64_t kCurvePoints = 40;

// Whether a point of the curve ends with this step, counted from 1.
bool EndsPoint(int64_t step, int64_t steps) {
  const int64_t points = std::min(kCurvePoints, steps);
  return step * points / steps > (step - 1) * points / steps;
}

// Without dropout nothing is drawn from PyTorch's one default generator once the weights are.
Trainer MakeTrainer(const Corpus& corpus, const TrainOptions& options) {
  std::optional<Trainer> trainer;
  BuildSeeded(options.seed, [&] {
    trainer.emplace(corpus, options);
    ScaleToWidth(*trainer->model(), options.model.width);
  });
  return std::move(*trainer);
}

struct Trained {
  std::vector<double> curve;
  double tokens_per_second = 0;
};

Trained TrainAll(Trainer& trainer, const TrainOptions& options, const std::function<void()>& on_step) {
  Trained trained;
  double sum = 0, seconds = 0;
  int64_t count = 0;
  FitHooks hooks;
  hooks.on_step = [&](const FitStep& step) {
    sum += step.loss;
    seconds += step.thread_seconds;
    ++count;
    if (EndsPoint(step.number, options.steps)) {
      trained.curve.push_back(sum / static_cast<double>(count));
      sum = 0, count = 0;
    }
    on_step();
  };
  trainer.Train(options.steps, hooks);
  trained.tokens_per_second =
      static_cast<double>(options.steps * options.batch * options.model.context) / std::max(seconds, 1e-9);
  return trained;
}

nlohmann::ordered_json ToJson(const SchemeTable& table) {
  return {{"scheme", table.scheme}, {"rows", table.rows}, {"columns", table.columns}, {"values", table.values}};
}

}  // namespace

std::vector<Column> StudyColumns(const StudyOptions& options, Objective objective) {
  const Measure loss = {
      .name = "loss", .label = "Loss on validation text (nats per character)", .phrase = "{} nats per character"};
  const Measure speed = {.name = "tokens_per_second",
                         .label = "Thousand characters per second",
                         .digits = 1,
                         .more_is_better = true,
                         .unit = 1000};
  const Measure training = {.name = "training_loss", .label = "Training loss (nats per character)"};
  std::vector<Column> columns;
  for (const int64_t multiple : kLengthMultiples) columns.push_back({loss, multiple * options.context});
  columns.push_back({speed});
  const int64_t steps = options.steps(objective);
  for (int64_t step = 1; step <= steps; ++step) {
    if (EndsPoint(step, steps)) columns.push_back({training, step});
  }
  return columns;
}

Outcome TrainAndEvaluate(const Corpus& corpus, const TrainOptions& options, const std::function<void()>& on_step) {
  Trainer trainer = MakeTrainer(corpus, options);
  const Trained trained = TrainAll(trainer, options, on_step);
  Outcome outcome;
  for (const int64_t multiple : kLengthMultiples) {
    const int64_t length = multiple * options.model.context;
    const bool reached = length <= trainer.model()->longest();
    outcome.values.push_back(reached ? Evaluate(trainer.model(), corpus.validation, length).loss : NAN);
  }
  outcome.values.push_back(trained.tokens_per_second);
  outcome.values.insert(outcome.values.end(), trained.curve.begin(), trained.curve.end());
  if (const std::optional<SchemeTable> table = TrainedTable(trainer.model(), 0)) outcome.more = ToJson(*table);
  return outcome;
}

std::optional<SchemeTable> TableOf(const nlohmann::ordered_json& more) {
  if (more.is_null()) return std::nullopt;
  SchemeTable table{more.at("scheme").get<std::string>(), more.at("rows").get<int64_t>(), more.at("columns").get<int64_t>(),
                    more.at("values").get<std::vector<double>>(), /*trained=*/true};
  const auto size = static_cast<int64_t>(table.values.size());
  if (table.rows < 1 || table.columns < 1 || size % table.rows != 0 || size / table.rows != table.columns) {
    throw InvalidArgument("table: it is not whole");
  }
  return table;
}

}  // namespace heed::lab
