#include "lab/study/options.h"

#include "heed/error.h"
#include "lab/runs/choice.h"
#include "lab/training/options.h"

namespace heed::lab {

StudyOptions BudgetOptions(const std::string& budget) {
  StudyOptions options;
  options.budget = budget;
  options.encoders = {"attention", "convolution", "gru", "lstm"}, options.positions = {"rotary", "relative"};
  options.objectives = {"causal"};
  options.rates = {3e-3, 6e-3, 1.2e-2};
  options.layers = 2, options.heads = 4, options.width = 64, options.context = 64, options.batch = 8;
  if (budget == "quick") {
    options.seconds = 3, options.rates = {6e-3}, options.seeds = 2, options.validation = 8192, options.test = 32768;
  } else if (budget == "default") {
    options.seconds = 16, options.validation = 16384, options.test = 65536;
  } else if (budget == "long") {
    options.layers = 4, options.width = 96, options.context = 128, options.batch = 16;
    options.seconds = 50, options.validation = 32768, options.test = 131072;
    options.encoders = {"attention", "convolution", "dilated", "gru", "lstm"};
    options.positions = {"rotary", "relative", "shaw"}, options.objectives = {"causal", "masked"};
  } else {
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  }
  return options;
}

Fields FieldsOf(StudyOptions& options) {
  constexpr int64_t kMostSteps = int64_t{1} << 32;
  return {
      Encoders(options.encoders),
      Schemes(options.positions),
      Choosing(Names("objectives", &options.objectives, {"causal", "masked"},
                     "What is learnt: the next character, characters that are hidden")),
      Whole("layers", &options.layers, 1, 64, "Layers"),
      Whole("heads", &options.heads, 1, 4096, "Heads of attention; divides the width"),
      Whole("width", &options.width, 4, 4096, "Features of a step"),
      Whole("context", &options.context, 4, 1 << 16, "Characters of a training window"),
      Whole("batch", &options.batch, 1, 1 << 16, "Windows a step"),
      Choosing(Number("seconds", options.seconds, 0, 1e6, "Seconds of one core that each training is given")),
      Choosing(Whole("steps", &options.all_steps, 0, kMostSteps, "Steps of each training instead of a time; 0: by time")),
      Choosing(Numbers("rates", options.rates, 0, 1e12, "Learning rates to choose among, rising")),
      Choosing(
          OrNone(Numbers("step_seconds", options.step_seconds, 0, 1e6,
                         "Seconds of a step of each model, which are else measured: turns time into the same steps again"))),
      Whole("validation", &options.validation, 1, int64_t{1} << 40, "Characters of the part that rates are chosen by, at most"),
      Whole("test", &options.test, 1, int64_t{1} << 40, "Characters of the part that is reported on, at most"),
      Seeds(options.seeds),
      Seed(options.seed),
      SideBySide(options.threads)};
}

void Validate(const StudyOptions& options) {
  StudyOptions checked = options;
  Check(FieldsOf(checked));
  RequireHeads(options.width, options.heads, options.positions);
  RequirePace(options.step_seconds, Contenders(options.encoders, options.positions).size() * options.objectives.size());
  RequireRising(options.rates);
}

std::string CommandOf(const StudyOptions& options, const std::string& text, const std::filesystem::path& folder) {
  StudyOptions own = options, budget = BudgetOptions(options.budget);
  return CommandLine("study", text, options.budget, FieldsOf(own), FieldsOf(budget), folder);
}

}  // namespace heed::lab
