#include "lab/series/options.h"

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "lab/runs/choice.h"
#include "lab/runs/contender.h"

namespace heed::lab {

SeriesOptions SeriesBudget(const std::string& budget) {
  SeriesOptions options;
  options.budget = budget;
  options.encoders = DefaultEncoders();
  options.positions = {"none", "sinusoidal", "rotary", "alibi", "relative"};
  if (budget == "quick") {
    options.layers = 1, options.steps = 150, options.seeds = 2;
  } else if (budget == "long") {
    options.width = 64, options.steps = 2000, options.seeds = 5;
  } else if (budget != "default") {
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  }
  return options;
}

void Validate(const SeriesOptions& options) {
  RequireKnown("encoders", options.encoders, nn::EncoderNames());
  RequireKnown("positions", options.positions, nn::PositionSchemeNames());
  RequireRange("layers", options.layers, 1, 64);
  RequireRange("width", options.width, 4, 4096);
  RequireHeads(options.width, options.heads, options.positions);
  RequireRange("batch", options.batch, 1, 1 << 16);
  RequireRange("steps", options.steps, 1, int64_t{1} << 32);
  RequireRange("context", options.context, 2, 1 << 16);
  RequireRange("horizon", options.horizon, 1, 1 << 12);
  RequireRange("longest", options.longest, 1, 1 << 20);
  RequireRange("seeds", options.seeds, 1, 1000);
  RequireRange("threads", options.threads, 1, 1024);
  if (!(options.validation > 0.0 && options.validation < 1.0)) {
    throw InvalidArgument("validation: expected a share between 0 and 1, got " + std::to_string(options.validation));
  }
}

TrainOptions TrainingOf(const SeriesOptions& options, uint64_t seed) {
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
