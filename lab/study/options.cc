#include "lab/study/options.h"

#include <algorithm>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "lab/runs/choice.h"

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
  if (!attends || options.depth.layers == 0) return std::nullopt;
  DepthOptions depth = options.depth;
  depth.context = std::min(depth.context, options.context);
  depth.validation = std::min(depth.validation, options.validation);
  depth.seed = options.seed, depth.threads = options.threads, depth.quiet = options.quiet;
  return depth;
}

TaskOptions TasksOf(const StudyOptions& options) {
  TaskOptions tasks = options.tasks;
  tasks.encoders = options.encoders, tasks.positions = options.positions;
  tasks.seed = options.seed, tasks.threads = options.threads, tasks.quiet = options.quiet;
  return tasks;
}

void Validate(const StudyOptions& options) {
  RequireKnown("encoders", options.encoders, nn::EncoderNames());
  RequireKnown("positions", options.positions, nn::PositionSchemeNames());
  RequireRange("layers", options.layers, 1, 64);
  RequireRange("width", options.width, 4, 4096);
  RequireHeads(options.width, options.heads, options.positions);
  RequireRange("context", options.context, 4, 1 << 16);
  RequireRange("batch", options.batch, 1, 1 << 16);
  for (const int64_t steps : {options.causal_steps, options.masked_steps}) RequireRange("steps", steps, 1, int64_t{1} << 32);
  RequireRange("seeds", options.seeds, 1, 1000);
  RequireRange("validation", options.validation, kLengthMultiples[2] * options.context + 1, int64_t{1} << 40);
  RequireRange("threads", options.threads, 1, 1024);
  if (const std::optional<DepthOptions> depth = DeepStacks(options)) Validate(*depth);
  if (!options.tasks.tasks.empty()) Validate(TasksOf(options));
}

}  // namespace heed::lab
