#include "lab/tasks/options.h"

#include <algorithm>
#include <functional>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "lab/runs/choice.h"
#include "lab/runs/contender.h"

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

void Validate(const TaskOptions& options) {
  RequireKnown("tasks", options.tasks, TaskNames());
  RequireKnown("encoders", options.encoders, nn::EncoderNames());
  RequireKnown("positions", options.positions, nn::PositionSchemeNames());
  RequireRange("layers", options.layers, 0, 64);
  RequireRange("width", options.width, 4, 4096);
  RequireHeads(options.width, options.heads, options.positions);
  for (const std::string& name : options.tasks) {
    const int64_t shortest = TaskNamed(name).facts().shortest;
    if (options.length < shortest) {
      throw InvalidArgument("length: the task " + name + " needs at least " + std::to_string(shortest) + " steps, got " +
                            std::to_string(options.length));
    }
  }
  RequireRange("length", options.length, 1, 1 << 14);
  for (const int64_t length : options.lengths) RequireRange("lengths", length, 1, 1 << 16);
  const auto begin = options.lengths.begin(), end = options.lengths.end();
  if (std::adjacent_find(begin, end, std::greater_equal<>()) != end || std::find(begin, end, options.length) == end) {
    throw InvalidArgument("lengths: expected increasing numbers, with the training length " + std::to_string(options.length) +
                          " among them");
  }
  RequireRange("batch", options.batch, 1, 1 << 16);
  RequireRange("steps", options.steps, 1, int64_t{1} << 32);
  RequireRange("evaluated", options.evaluated, 1, 1 << 20);
  RequireRange("seeds", options.seeds, 1, 1000);
  RequireRange("threads", options.threads, 1, 1024);
  if (!(options.lr > 0.0 && options.lr < 1.0)) throw InvalidArgument("lr: expected a number between 0 and 1");
}

TrainOptions TrainingOf(const TaskOptions& options, uint64_t seed) {
  TrainOptions train;
  train.batch = options.batch;
  train.steps = options.steps;
  train.lr = options.lr;
  train.min_lr = options.lr / 10;
  train.warmup = options.steps / 10;
  train.weight_decay = 0.01;
  train.seed = seed;
  return train;
}

}  // namespace heed::lab
