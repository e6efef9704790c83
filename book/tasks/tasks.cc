#include "book/tasks/tasks.h"

#include <functional>
#include <utility>

#include "book/tasks/run.h"
#include "lab/runs/experiment.h"

namespace heed::lab {
namespace {

// What it refers to must outlive it.
Part PartOf(const SequenceTask& task, TaskOptions& options) {
  return {.id = task.facts().id,
          .models = PlanTask(task, options),
          .columns = TaskColumns(task, options),
          .steps = options.steps,
          .settings = RunSettingsOf(FieldsOf(options)),
          .train = [&task, &options](const SizedContender& model, uint64_t seed, const std::function<void()>& on_step) {
            return TrainOnTask(task, model, options, seed, on_step);
          }};
}

}  // namespace

TasksResult RunTasks(const TaskOptions& options, const std::string& what, const ResultStore* store) {
  Validate(options);
  TasksResult result{options, ThisEnvironment(), {}};
  std::vector<Part> parts;
  parts.reserve(options.tasks.size());
  for (const std::string& name : options.tasks) parts.push_back(PartOf(TaskNamed(name), result.options));
  for (Measurements& scores : RunParts(what, parts, {options.seed, options.seeds, options.threads, options.quiet}, store)) {
    result.tasks.push_back({&TaskNamed(scores.part()), std::move(scores)});
  }
  return result;
}

}  // namespace heed::lab
