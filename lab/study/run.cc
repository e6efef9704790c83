#include "lab/study/run.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/positions/scheme_table.h"
#include "lab/runs/run.h"
#include "lab/training/evaluation.h"
#include "lab/training/fit.h"
#include "lab/training/initialisation.h"
#include "lab/training/trainer.h"

namespace heed::lab {
namespace {

constexpr int64_t kCurvePoints = 40;

// Without dropout nothing is drawn from PyTorch's one default generator once the weights are.
Trainer MakeTrainer(const Corpus& corpus, const TrainOptions& options) {
  std::optional<Trainer> trainer;
  BuildSeeded(options.seed, [&] {
    trainer.emplace(corpus, options);
    ScaleToWidth(*trainer->model(), options.model.width);
  });
  return std::move(*trainer);
}

void TrainAll(Trainer& trainer, const TrainOptions& options, StudyRun& run, const std::function<void()>& on_step) {
  const int64_t points = std::min(kCurvePoints, options.steps);
  double sum = 0, seconds = 0;
  int64_t count = 0;
  FitHooks hooks;
  hooks.on_step = [&](const FitStep& step) {
    sum += step.loss;
    seconds += step.thread_seconds;
    ++count;
    if (step.number * points / options.steps > (step.number - 1) * points / options.steps) {
      run.curve_steps.push_back(step.number);
      run.curve_losses.push_back(sum / static_cast<double>(count));
      sum = 0, count = 0;
    }
    on_step();
  };
  trainer.Train(options.steps, hooks);
  run.tokens_per_second = static_cast<double>(options.steps * options.batch * options.model.context) / std::max(seconds, 1e-9);
}

// What it refers to must outlive it.
Run RunOf(const Corpus& corpus, const StudyModel& model, const TrainOptions& options, StudyRun& result) {
  Run run;
  run.name = fmt::format("{}-{}-seed-{}", ToString(model.objective), model.Id(), options.seed);
  run.settings = ToJson(options);
  run.work = options.steps;
  run.compute = [&corpus, options](const OnWork& on_work) {
    return ToJson(TrainAndEvaluate(corpus, options, [&on_work] { on_work(1); }));
  };
  run.take = [&model, &result](const nlohmann::ordered_json& json) {
    result = RunFromJson(json);
    return fmt::format("{}: {:.3f}", model.Label(), result.losses.front());
  };
  return run;
}

}  // namespace

StudyRun TrainAndEvaluate(const Corpus& corpus, const TrainOptions& options, const std::function<void()>& on_step) {
  StudyRun run;
  run.seed = options.seed;
  Trainer trainer = MakeTrainer(corpus, options);
  TrainAll(trainer, options, run, on_step);
  for (const int64_t multiple : kLengthMultiples) {
    const int64_t length = multiple * options.model.context;
    const bool reached = length <= trainer.model()->longest();
    run.losses.push_back(reached ? Evaluate(trainer.model(), corpus.validation, length).loss : kNoLoss);
  }
  run.table = TrainedTable(trainer.model(), 0);
  return run;
}

std::vector<std::vector<StudyRun>> TrainModels(const std::string& what, const Corpus& corpus, const StudyOptions& options,
                                               const std::vector<StudyModel>& models, const ResultStore* store) {
  std::vector<std::vector<StudyRun>> results(models.size(), std::vector<StudyRun>(options.seeds));
  std::vector<Run> runs;
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (int64_t s = 0; s < options.seeds; ++s) {
      const TrainOptions training = TrainingOf(options, models[m], options.seed + static_cast<uint64_t>(s));
      runs.push_back(RunOf(corpus, models[m], training, results[m][s]));
    }
  }
  DoRuns(what, runs, store, options.threads, options.quiet);
  return results;
}

namespace {

nlohmann::ordered_json ToJson(const SchemeTable& table) {
  return {{"scheme", table.scheme}, {"rows", table.rows}, {"columns", table.columns}, {"values", table.values}};
}

SchemeTable TableFromJson(const nlohmann::ordered_json& json) {
  SchemeTable table{json.at("scheme").get<std::string>(), json.at("rows").get<int64_t>(), json.at("columns").get<int64_t>(),
                    json.at("values").get<std::vector<double>>(), /*trained=*/true};
  const auto size = static_cast<int64_t>(table.values.size());
  if (table.rows < 1 || table.columns < 1 || size % table.rows != 0 || size / table.rows != table.columns) {
    throw InvalidArgument("table: it is not whole");
  }
  return table;
}

}  // namespace

nlohmann::ordered_json ToJson(const StudyRun& run) {
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const double loss : run.losses) losses.push_back(std::isfinite(loss) ? nlohmann::ordered_json(loss) : nullptr);
  nlohmann::ordered_json json = {{"seed", run.seed},
                                 {"losses", losses},
                                 {"tokens_per_second", run.tokens_per_second},
                                 {"curve_steps", run.curve_steps},
                                 {"curve_losses", run.curve_losses}};
  if (run.table) json["table"] = ToJson(*run.table);
  return json;
}

StudyRun RunFromJson(const nlohmann::ordered_json& json) {
  StudyRun run;
  run.seed = json.at("seed").get<uint64_t>();
  run.curve_steps = json.at("curve_steps").get<std::vector<int64_t>>();
  run.curve_losses = json.at("curve_losses").get<std::vector<double>>();
  for (const auto& loss : json.at("losses")) run.losses.push_back(loss.is_null() ? kNoLoss : loss.get<double>());
  run.tokens_per_second = json.at("tokens_per_second").get<double>();
  if (json.contains("table")) run.table = TableFromJson(json.at("table"));
  if (run.curve_steps.empty() || run.curve_steps.size() != run.curve_losses.size() ||
      run.losses.size() != std::size(kLengthMultiples) || !std::isfinite(run.losses.front()) || run.tokens_per_second <= 0) {
    throw InvalidArgument("run: it is not whole");
  }
  return run;
}

}  // namespace heed::lab
