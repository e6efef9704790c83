#include "lab/tasks/tasks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "lab/runs/run.h"

namespace heed::lab {
namespace {

nlohmann::ordered_json SettingsOf(const SequenceTask& task, const TaskModel& model, const TaskOptions& options, uint64_t seed) {
  const TrainOptions training = TrainingOf(options, seed);
  return {{"task", task.facts().id},
          {"encoder", model.encoder},
          {"position", model.position},
          {"layers", options.LayersFor(task)},
          {"heads", options.heads},
          {"width", options.width},
          {"ffn_width", model.ffn_width},
          {"length", options.length},
          {"lengths", options.lengths},
          {"batch", options.batch},
          {"steps", options.steps},
          {"evaluated", options.evaluated},
          {"lr", training.lr},
          {"min_lr", training.min_lr},
          {"weight_decay", training.weight_decay},
          {"seed", seed}};
}

// What it refers to must outlive it.
Run RunOf(const SequenceTask& task, const TaskModel& model, const TaskOptions& options, uint64_t seed, TaskRun& result) {
  Run run;
  run.name = fmt::format("{}-{}-seed-{}", task.facts().id, model.Id(), seed);
  run.settings = SettingsOf(task, model, options, seed);
  run.work = options.steps;
  run.compute = [&task, &model, &options, seed](const OnWork& on_work) {
    return ToJson(TrainOnTask(task, model, options, seed, [&on_work] { on_work(1); }));
  };
  run.take = [&task, &model, &options, &result](const nlohmann::ordered_json& json) {
    result = TaskRunFromJson(json, options.lengths.size());
    return fmt::format("{}, {}", task.facts().id, model.Label());
  };
  return run;
}

}  // namespace

bool TaskModelResult::Reaches(std::size_t length) const { return std::isfinite(runs.front().scores[length]); }

Spread TaskModelResult::Score(std::size_t length) const {
  std::vector<double> scores;
  scores.reserve(runs.size());
  for (const TaskRun& run : runs) scores.push_back(run.scores[length]);
  return SpreadOf(scores);
}

std::size_t TasksResult::TrainingLength() const {
  return std::find(options.lengths.begin(), options.lengths.end(), options.length) - options.lengths.begin();
}

TasksResult RunTasks(const TaskOptions& options, const std::string& what, const ResultStore* store) {
  Validate(options);
  TasksResult result{options, {}};
  for (const std::string& name : options.tasks) {
    const SequenceTask& task = TaskNamed(name);
    result.tasks.push_back({&task, {}});
    for (TaskModel& model : PlanTask(task, options)) {
      result.tasks.back().models.push_back({std::move(model), std::vector<TaskRun>(options.seeds)});
    }
  }
  std::vector<Run> runs;
  for (TaskResult& task : result.tasks) {
    for (TaskModelResult& model : task.models) {
      for (int64_t s = 0; s < options.seeds; ++s) {
        const uint64_t seed = options.seed + static_cast<uint64_t>(s);
        runs.push_back(RunOf(*task.task, model.model, result.options, seed, model.runs[s]));
      }
    }
  }
  DoRuns(what, runs, store, options.threads, options.quiet);
  return result;
}

}  // namespace heed::lab
