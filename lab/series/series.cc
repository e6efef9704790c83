#include "lab/series/series.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "lab/report/file.h"
#include "lab/runs/run.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

Spread SpreadOver(const std::vector<SeriesRun>& runs, double SeriesRun::*field) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const SeriesRun& run : runs) values.push_back(run.*field);
  return SpreadOf(values);
}

SeriesSummary Summarise(const SeriesBatches& batches) {
  const SeriesData& data = batches.data();
  SeriesSummary summary;
  summary.name = data.name, summary.fingerprint = data.fingerprint, summary.target = data.target;
  summary.goal = data.goal;
  summary.features = data.features, summary.classes = data.classes;
  summary.sequences = std::ssize(data.sequences), summary.steps = data.Steps(), summary.longest = data.Longest();
  summary.shortest = data.Longest();
  for (const SeriesSequence& sequence : data.sequences) summary.shortest = std::min(summary.shortest, sequence.steps);
  summary.training = batches.training_count(), summary.validation = batches.validation_count();
  summary.has_times = data.has_times, summary.each_step = data.each_step;
  return summary;
}

nlohmann::ordered_json SettingsOf(const SeriesModel& model, const SeriesOptions& options, uint64_t seed) {
  const TrainOptions training = TrainingOf(options, seed);
  return {{"encoder", model.encoder},
          {"position", model.position},
          {"layers", options.layers},
          {"heads", options.heads},
          {"width", options.width},
          {"ffn_width", model.ffn_width},
          {"batch", options.batch},
          {"steps", options.steps},
          {"context", options.context},
          {"horizon", options.horizon},
          {"longest", options.longest},
          {"validation", options.validation},
          {"lr", training.lr},
          {"min_lr", training.min_lr},
          {"weight_decay", training.weight_decay},
          {"seed", seed}};
}

// What all runs depend on beside their own settings.
nlohmann::ordered_json SharedSettings(const SeriesResult& result) {
  nlohmann::ordered_json settings = {{"data", result.data.fingerprint},  {"target", result.data.target},
                                     {"features", result.data.features}, {"goal", ToString(result.data.goal)},
                                     {"times", result.data.has_times},   {"sequences", result.data.sequences}};
  settings.update(ResultSettings(result.environment));
  return settings;
}

// What it refers to must outlive it.
Run RunOf(const SeriesBatches& batches, const SeriesModel& model, const SeriesOptions& options, uint64_t seed,
          SeriesRun& result) {
  Run run;
  run.name = fmt::format("{}-seed-{}", model.Id(), seed);
  run.settings = SettingsOf(model, options, seed);
  run.work = options.steps;
  run.compute = [&batches, &model, &options, seed](const OnWork& on_work) {
    return ToJson(TrainOnSeries(batches, model, options, seed, [&on_work] { on_work(1); }));
  };
  run.take = [&model, &result](const nlohmann::ordered_json& json) {
    result = SeriesRunFromJson(json);
    return fmt::format("{}: {:.3g}", model.Label(), result.loss);
  };
  return run;
}

}  // namespace

Spread SeriesModelResult::Loss() const { return SpreadOver(runs, &SeriesRun::loss); }
Spread SeriesModelResult::Accuracy() const { return SpreadOver(runs, &SeriesRun::accuracy); }

SeriesResult RunSeries(const SeriesData& data, const SeriesOptions& options, const std::filesystem::path& folder) {
  Validate(options);
  const SeriesBatches batches(data, options);
  SeriesResult result{options, ThisEnvironment(), Summarise(batches), batches.Baseline(), {}};
  for (SeriesModel& model : PlanSeries(batches, options)) {
    result.models.push_back({std::move(model), std::vector<SeriesRun>(options.seeds)});
  }
  std::vector<Run> runs;
  for (SeriesModelResult& model : result.models) {
    for (int64_t s = 0; s < options.seeds; ++s) {
      runs.push_back(RunOf(batches, model.model, result.options, options.seed + static_cast<uint64_t>(s), model.runs[s]));
    }
  }
  const ResultStore store(folder / "runs", SharedSettings(result));
  // A folder that cannot be written shows now and not after the training.
  WriteFile(folder / "data.txt", result.data.name + " " + result.data.fingerprint + "\n");
  try {
    DoRuns(ToString(data.goal), runs, &store, options.threads, options.quiet);
  } catch (const Interruption&) {
    throw Interruption("interrupted; finished runs are kept in " + store.folder().string() +
                       ", and the same command goes on from there");
  }
  return result;
}

}  // namespace heed::lab
