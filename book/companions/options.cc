#include "book/companions/options.h"

#include <algorithm>

namespace heed::lab {

CompanionOptions CompanionBudget(const std::string& budget) {
  CompanionOptions options;
  options.depth = DepthBudget(budget);
  options.tasks = TaskBudget(budget);
  options.compared_lengths = {16, 32, 64, 128, 256};
  if (budget != "quick") options.compared_lengths.push_back(512);
  if (budget == "long") {
    options.compared_lengths.push_back(1024);
    options.deepest = 1024;
  } else {
    options.tasks.tasks.clear();
  }
  return options;
}

std::optional<DepthOptions> DeepStacks(const CompanionOptions& options, const StudyOptions& study) {
  const bool attends = std::ranges::find(study.encoders, "attention") != study.encoders.end();
  if (!attends || options.deepest == 0) return std::nullopt;
  DepthOptions depth = AtMost(options.deepest, options.depth);
  if (study.all_steps > 0) depth.steps = study.all_steps;
  depth.context = std::min(depth.context, study.context);
  depth.validation = std::min(depth.validation, study.validation);
  depth.seed = study.seed, depth.threads = study.threads, depth.quiet = study.quiet;
  return depth;
}

std::optional<TaskOptions> Tasks(const CompanionOptions& options, const StudyOptions& study) {
  if (options.tasks.tasks.empty()) return std::nullopt;
  TaskOptions tasks = options.tasks;
  if (study.all_steps > 0) tasks.steps = study.all_steps;
  tasks.encoders = study.encoders, tasks.positions = study.positions;
  tasks.seed = study.seed, tasks.threads = study.threads, tasks.quiet = study.quiet;
  return tasks;
}

Fields FieldsOf(CompanionOptions& options) {
  return {Choosing(OrNone(Names("tasks", &options.tasks.tasks, TaskNames(), "Synthetic tasks, on a page beside the study's"))),
          Choosing(Whole("depth", &options.deepest, 0, 1024,
                         "Deep stacks of up to so many layers, on a page beside the study's; 0: no such page"))};
}

void Validate(const CompanionOptions& options, const StudyOptions& study) {
  CompanionOptions checked = options;
  Check(FieldsOf(checked));
  if (const std::optional<DepthOptions> depth = DeepStacks(options, study)) Validate(*depth);
  if (const std::optional<TaskOptions> tasks = Tasks(options, study)) Validate(*tasks);
}

}  // namespace heed::lab
