#include "lab/rates/options.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "heed/error.h"
#include "lab/runs/choice.h"
#include "lab/runs/contender.h"

namespace heed::lab {

RateOptions RateBudget(const std::string& budget) {
  RateOptions options;
  options.budget = budget;
  options.encoders = {"attention", "convolution", "gru", "lstm"};
  options.positions = {"rotary", "alibi", "relative"};
  options.rates = {1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2};
  if (budget == "quick") {
    options.encoders = {"attention", "gru"}, options.positions = {"rotary"};
    options.rates = {2e-3, 6e-3, 1.8e-2};
    options.steps = 100, options.validation = 4096, options.seeds = 1;
  } else if (budget == "long") {
    options.encoders = DefaultEncoders(), options.positions = {"none", "sinusoidal", "learned", "rotary", "alibi", "relative"};
    options.rates = {5e-4, 1e-3, 2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2};
    options.steps = 1000, options.seeds = 3;
  } else if (budget != "default") {
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  }
  return options;
}

Fields FieldsOf(RateOptions& options) {
  return {Encoders(options.encoders),
          Schemes(options.positions),
          Choosing(Numbers("rates", options.rates, 0, std::numeric_limits<double>::infinity(),
                           "Learning rates after the warm-up, rising")),
          Names("objective", &options.objective, {"causal", "masked"}, "Predict the next character, or fill in hidden ones"),
          Whole("layers", &options.layers, 1, 64, "Layers"),
          Whole("heads", &options.heads, 1, 4096, "Heads of attention; divides the width"),
          Whole("width", &options.width, 4, 4096, "Features of a step"),
          Whole("context", &options.context, 4, 1 << 16, "Characters of a window"),
          Whole("batch", &options.batch, 1, 1 << 16, "Windows a step"),
          Choosing(Whole("steps", &options.steps, 1, int64_t{1} << 32, "Training steps of a run")),
          Whole("validation", &options.validation, 8, int64_t{1} << 40,
                "Characters of the validation part that are evaluated, at most"),
          Seeds(options.seeds),
          Seed(options.seed),
          SideBySide(options.threads)};
}

void Validate(const RateOptions& options) {
  RateOptions checked = options;
  Check(FieldsOf(checked));
  RequireHeads(options.width, options.heads, options.positions);
  if (std::ranges::adjacent_find(options.rates, std::greater_equal()) != options.rates.end()) {
    throw InvalidArgument("rates: expected rising numbers");
  }
}

std::string CommandOf(const RateOptions& options, const std::string& text, const std::filesystem::path& folder) {
  RateOptions own = options, budget = RateBudget(options.budget);
  return CommandLine("rates", text, options.budget, FieldsOf(own), FieldsOf(budget), folder);
}

}  // namespace heed::lab
