#include "book/tasks/options.h"

#include <algorithm>
#include <functional>

#include "book/tasks/tasks.h"
#include "heed/error.h"
#include "heed/nn/position_choice.h"
#include "lab/options/fields.h"
#include "lab/runs/contender.h"
#include "lab/training/options.h"

namespace heed::lab {

TaskOptions TaskBudget(const std::string& budget) {
  TaskOptions options;
  options.budget = budget;
  options.encoders = DefaultEncoders();
  options.positions = {"none", "sinusoidal", "alibi", "relative"};
  if (budget == "quick") {
    options.tasks = {"previous-of-both-1", "adding"};
    options.length = 16, options.lengths = {16, 32, 64};
    options.layers = 1, options.width = 32, options.steps = 150, options.evaluated = 64, options.seeds = 2;
  } else if (budget == "default") {
    options.tasks = {"copy", "parity", "previous-of-both-1"};
    options.length = 32, options.lengths = {16, 32, 64, 128};
    options.width = 32, options.steps = 400, options.seeds = 2;
  } else if (budget == "long") {
    options.tasks = TaskNames();
    options.positions = {"none", "sinusoidal", "learned", "rotary", "alibi", "relative", "t5", "shaw"};
    options.length = 64, options.lengths = {16, 32, 64, 128, 256};
    options.steps = 1000, options.seeds = 2;
  } else {
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  }
  return options;
}

Fields FieldsOf(TaskOptions& options) {
  return {
      Choosing(Names("tasks", &options.tasks, TaskNames(), "Tasks")),
      Encoders(options.encoders),
      Schemes(options.positions),
      Whole("length", &options.length, 1, 1 << 14,
            "Steps of a sequence in training; without --lengths evaluations are at 1, 2 and 4 times as many"),
      Whole("lengths", &options.lengths, 1, 1 << 16,
            "Steps of the evaluations: numbers with commas, and ranges 16:128 that double; must include the training length"),
      Whole("layers", &options.layers, 0, 64, "Layers; 0: as the task needs"),
      Whole("heads", &options.heads, 1, 4096, "Heads of attention; divides the width"),
      Whole("width", &options.width, 4, 4096, "Features of a step"),
      Whole("batch", &options.batch, 1, 1 << 16, "Sequences a step"),
      Choosing(Whole("steps", &options.steps, 1, int64_t{1} << 32, "Training steps of a run")),
      Whole("evaluated", &options.evaluated, 1, 1 << 20, "Sequences of each length in an evaluation"),
      Number("lr", options.lr, 0, 1, "Learning rate after the warm-up"),
      Names("query_key_norm", &options.query_key_norm, QueryKeyNormNames(), "How attention normalises queries and keys"),
      Seeds(options.seeds),
      Seed(options.seed),
      SideBySide(options.threads)};
}

std::vector<std::string> TasksOf(const TaskOptions& options) {
  std::vector<std::string> tasks = options.tasks;
  if (tasks == TaskNames()) {
    std::erase_if(tasks, [&](const std::string& name) { return TaskNamed(name).facts().shortest > options.length; });
  }
  return tasks;
}

void Validate(const TaskOptions& options) {
  TaskOptions checked = options;
  Check(FieldsOf(checked));
  RequireHeads(options.width, options.heads, options.positions);
  for (const std::string& name : TasksOf(options)) {
    const int64_t shortest = TaskNamed(name).facts().shortest;
    for (const std::string& position : options.positions) {
      if (!nn::NeedsCausal(nn::ParsePositionScheme(position)) || TaskNamed(name).facts().causal) continue;
      throw InvalidArgument(std::string("positions: ")
                                .append(position)
                                .append(" needs steps that see none after them, and the task ")
                                .append(name)
                                .append(" has both sides"));
    }
    if (options.length < shortest) {
      throw InvalidArgument("length: the task " + name + " needs at least " + std::to_string(shortest) + " steps, got " +
                            std::to_string(options.length));
    }
  }
  const auto begin = options.lengths.begin(), end = options.lengths.end();
  if (std::adjacent_find(begin, end, std::greater_equal<>()) != end || std::find(begin, end, options.length) == end) {
    throw InvalidArgument("lengths: expected increasing numbers, with the training length " + std::to_string(options.length) +
                          " among them");
  }
  // What a model refuses is told before anything is written.
  for (const std::string& name : TasksOf(options)) PlanTask(TaskNamed(name), options);
}

std::string CommandOf(const TaskOptions& options, const std::filesystem::path& folder) {
  TaskOptions own = options, budget = TaskBudget(options.budget);
  return CommandLine("tasks", "", options.budget, FieldsOf(own), FieldsOf(budget), folder);
}

}  // namespace heed::lab
