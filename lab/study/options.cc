#include "lab/study/options.h"

#include <algorithm>

#include "heed/error.h"
#include "lab/runs/choice.h"
#include "lab/training/options.h"

namespace heed::lab {

StudyOptions BudgetOptions(const std::string& budget) {
  StudyOptions options;
  options.budget = budget;
  options.depth = DepthBudget(budget);
  options.tasks = TaskBudget(budget);
  options.layers = 2, options.heads = 4, options.width = 64, options.context = 64, options.batch = 8;
  if (budget == "quick") {
    options.causal_steps = 150, options.masked_steps = 200, options.seeds = 2, options.validation = 8192;
    options.compared_lengths = {16, 32, 64, 128, 256};
  } else if (budget == "default") {
    options.causal_steps = 600, options.masked_steps = 1000, options.validation = 16384;
    options.compared_lengths = {16, 32, 64, 128, 256, 512};
  } else if (budget == "long") {
    options.layers = 4, options.width = 96, options.context = 128, options.batch = 16;
    options.causal_steps = 500, options.masked_steps = 700, options.validation = 65536;
    options.compared_lengths = {16, 32, 64, 128, 256, 512, 1024};
  } else {
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  }
  return options;
}

std::optional<DepthOptions> DeepStacks(const StudyOptions& options) {
  const bool attends = std::find(options.encoders.begin(), options.encoders.end(), "attention") != options.encoders.end();
  if (!attends || options.deepest == 0) return std::nullopt;
  DepthOptions depth = AtMost(options.deepest, options.depth);
  if (options.all_steps > 0) depth.steps = options.all_steps;
  depth.context = std::min(depth.context, options.context);
  depth.validation = std::min(depth.validation, options.validation);
  depth.seed = options.seed, depth.threads = options.threads, depth.quiet = options.quiet;
  return depth;
}

TaskOptions TasksOf(const StudyOptions& options) {
  TaskOptions tasks = options.tasks;
  if (options.all_steps > 0) tasks.steps = options.all_steps;
  tasks.encoders = options.encoders, tasks.positions = options.positions;
  tasks.seed = options.seed, tasks.threads = options.threads, tasks.quiet = options.quiet;
  return tasks;
}

Fields FieldsOf(StudyOptions& options) {
  constexpr int64_t kMostSteps = int64_t{1} << 32;
  return {
      Encoders(options.encoders),
      Schemes(options.positions),
      Choosing(OrNone(Names("tasks", &options.tasks.tasks, TaskNames(), "Synthetic tasks of the last section"))),
      Choosing(Whole("depth", &options.deepest, 0, 1024,
                     "Most layers of the stacks in the section on depth, which has no more than the budget's; 0: without it")),
      Whole("layers", &options.layers, 1, 64, "Layers"),
      Whole("heads", &options.heads, 1, 4096, "Heads of attention; divides the width"),
      Whole("width", &options.width, 4, 4096, "Features of a step"),
      Whole("context", &options.context, 4, 1 << 16, "Characters of a training window"),
      Whole("batch", &options.batch, 1, 1 << 16, "Windows a step"),
      Choosing(Whole("steps", &options.all_steps, 0, kMostSteps, "Training steps of every run; 0: the budget's, which differ")),
      Choosing(Whole("causal_steps", &options.causal_steps, 1, kMostSteps,
                     "Training steps of a run that predicts the next character")),
      Choosing(Whole("masked_steps", &options.masked_steps, 1, kMostSteps,
                     "Training steps of a run that fills in hidden characters")),
      Whole("validation", &options.validation, kLengthMultiples[2] * options.context + 1, int64_t{1} << 40,
            "Characters of the validation part that are evaluated, at most"),
      Seeds(options.seeds),
      Number("lr", options.lr, 0, 1, "Learning rate after the warm-up"),
      Seed(options.seed),
      SideBySide(options.threads)};
}

void Validate(const StudyOptions& options) {
  StudyOptions checked = options;
  Check(FieldsOf(checked));
  RequireHeads(options.width, options.heads, options.positions);
  if (const std::optional<DepthOptions> depth = DeepStacks(options)) Validate(*depth);
  if (!options.tasks.tasks.empty()) Validate(TasksOf(options));
}

std::string CommandOf(const StudyOptions& options, const std::string& text, const std::filesystem::path& folder) {
  StudyOptions own = options, budget = BudgetOptions(options.budget);
  return CommandLine("study", text, options.budget, FieldsOf(own), FieldsOf(budget), folder);
}

}  // namespace heed::lab
