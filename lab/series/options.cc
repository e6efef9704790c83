#include "lab/series/options.h"

#include <limits>

#include "heed/error.h"
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

Fields FieldsOf(SeriesOptions& options) {
  return {Encoders(options.encoders),
          Schemes(options.positions),
          Whole("layers", &options.layers, 1, 64, "Layers"),
          Whole("heads", &options.heads, 1, 4096, "Heads of attention; divides the width"),
          Whole("width", &options.width, 4, 4096, "Features of a step"),
          Whole("batch", &options.batch, 1, 1 << 16, "Sequences or windows a step"),
          Choosing(Whole("steps", &options.steps, 1, int64_t{1} << 32, "Training steps of a run")),
          Whole("context", &options.context, 2, 1 << 16, "Steps of a window of a forecast"),
          Whole("horizon", &options.horizon, 1, 1 << 12, "Values that a forecast foretells"),
          Whole("longest", &options.longest, 1, 1 << 20, "Steps of a sequence that are read, the last ones"),
          Number("validation_share", options.validation, 0, 0.5,
                 "Share for validation, and as much again for testing: of the sequences, or of the end of each for a forecast"),
          Number("lr", options.lr, 0, std::numeric_limits<double>::infinity(), "Learning rate after the warm-up"),
          Seeds(options.seeds),
          Seed(options.seed),
          SideBySide(options.threads)};
}

TrainOptions SeriesTraining(const SeriesOptions& options) {
  return ShortTraining(options.steps, options.lr, /*weight_decay=*/0.01);
}

void Validate(const SeriesOptions& options) {
  SeriesOptions checked = options;
  Check(FieldsOf(checked));
  RequireHeads(options.width, options.heads, options.positions);
}

}  // namespace heed::lab
