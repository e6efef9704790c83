#include "lab/series/options.h"

#include "heed/error.h"
#include "lab/runs/choice.h"
#include "lab/runs/contender.h"

namespace heed::lab {

SeriesOptions SeriesBudget(const std::string& budget) {
  SeriesOptions options;
  options.budget = budget;
  options.encoders = {"attention", "convolution", "dilated", "gru", "lstm"};
  options.positions = {"none", "rotary", "relative"};
  if (budget == "quick") {
    options.layers = 1, options.seconds = 1, options.seeds = 2, options.rates = {3e-3};
  } else if (budget == "long") {
    options.width = 64, options.seconds = 30, options.seeds = 5;
    options.positions = {"none", "sinusoidal", "rotary", "relative", "shaw"};
  } else if (budget != "default") {
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  }
  return options;
}

Fields FieldsOf(SeriesOptions& options) {
  return {
      Encoders(options.encoders),
      Schemes(options.positions),
      Whole("layers", &options.layers, 1, 64, "Layers"),
      Whole("heads", &options.heads, 1, 4096, "Heads of attention; divides the width"),
      Whole("width", &options.width, 4, 4096, "Features of a step"),
      Whole("batch", &options.batch, 1, 1 << 16, "Sequences or windows a step"),
      Choosing(Number("seconds", options.seconds, 0, 1e6, "Seconds of one core that each training is given")),
      Choosing(Whole("steps", &options.all_steps, 0, int64_t{1} << 32, "Steps of each training instead of a time; 0: by time")),
      Choosing(Numbers("rates", options.rates, 0, 1e12, "Learning rates to choose among, rising")),
      Choosing(OrNone(Numbers("step_seconds", options.step_seconds, 0, 1e6, "Seconds of a step of each model"))),
      Whole("context", &options.context, 2, 1 << 16, "Steps of a window of a forecast"),
      Whole("horizon", &options.horizon, 1, 1 << 12, "Values that a forecast foretells"),
      Whole("longest", &options.longest, 1, 1 << 20, "Steps of a sequence that are read, the last ones"),
      Number("validation_share", options.validation, 0, 0.5,
             "Share for validation, and as much again for testing: of the sequences, or of the end of each for a forecast"),
      Seeds(options.seeds),
      Seed(options.seed),
      SideBySide(options.threads)};
}

TrainOptions SeriesTraining(int64_t steps, double rate) { return ShortTraining(steps, rate, /*weight_decay=*/0.01); }

void Validate(const SeriesOptions& options) {
  SeriesOptions checked = options;
  Check(FieldsOf(checked));
  RequireHeads(options.width, options.heads, options.positions);
  RequirePace(options.step_seconds, Contenders(options.encoders, options.positions).size());
  RequireRising(options.rates);
}

}  // namespace heed::lab
