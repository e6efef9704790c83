#include "lab/study/options.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/options/fields.h"
#include "lab/runs/contender.h"
#include "lab/runs/outlook.h"

namespace heed::lab {
namespace {

constexpr double kTextDecay = 0.1, kTableDecay = 0.01;  // of the weights

void SetTextBudget(StudyOptions& options) {
  options.encoders = {"attention", "convolution", "gru", "lstm"}, options.positions = {"rotary", "relative"};
  options.objectives = {"causal"};
  options.rates = {6e-3, 1.2e-2, 2.4e-2};
  options.width = 64, options.context = 256, options.batch = 4;
  options.seconds = 30, options.seeds = 2, options.validation = 16384, options.test = 98304;
  if (options.budget == "quick") {
    options.seconds = 5, options.rates = {1.2e-2}, options.validation = 8192, options.test = 32768;
  } else if (options.budget == "long") {
    options.layers = 4, options.width = 96, options.batch = 8;
    options.seconds = 100, options.seeds = 4, options.validation = 32768, options.test = 131072;
    options.encoders = {"attention", "convolution", "dilated", "gru", "lstm"};
    options.positions = {"rotary", "relative", "shaw"}, options.objectives = {"causal", "masked"};
  }
}

void SetTableBudget(StudyOptions& options) {
  options.encoders = {"attention", "convolution", "dilated", "gru", "lstm"};
  options.positions = {"none", "rotary", "relative"};
  options.rates = {1e-3, 3e-3, 1e-2, 3e-2};
  options.width = 32, options.context = 32, options.batch = 16, options.seconds = 8, options.seeds = 4;
  if (options.budget == "quick") {
    options.layers = 1, options.seconds = 2, options.seeds = 2, options.rates = {3e-3};
  } else if (options.budget == "long") {
    options.width = 64, options.seconds = 30, options.seeds = 5;
    options.positions = {"none", "sinusoidal", "rotary", "relative", "shaw"};
  }
}

// How many contests are held.
std::size_t Tasks(const StudyOptions& options) { return options.kind == StudyKind::kText ? options.objectives.size() : 1; }

void RequireReach(const StudyOptions& options) {
  if (options.for_seconds == 0) return;
  if (options.all_steps > 0)
    throw InvalidArgument("for: curves over steps predict nothing for times; give --seconds in place of --steps");
  if (options.for_seconds <= options.seconds)
    throw InvalidArgument(fmt::format("for: {:g} s is not longer than the {:g} s of each training; lower --seconds instead",
                                      options.for_seconds, options.seconds));
  if (options.for_seconds > kFurthest * options.seconds) {
    throw InvalidArgument(fmt::format(
        "for: {:g} s is more than {:g} times the {:g} s of each training, and curves reach no further; give --seconds {:g}",
        options.for_seconds, kFurthest, options.seconds, std::ceil(options.for_seconds / kFurthest)));
  }
}

}  // namespace

StudyOptions BudgetOptions(const std::string& budget, StudyKind kind) {
  if (budget != "quick" && budget != "default" && budget != "long")
    throw InvalidArgument("budget: '" + budget + "' is unknown; choose quick, default or long");
  StudyOptions options;
  options.kind = kind, options.budget = budget;
  kind == StudyKind::kText ? SetTextBudget(options) : SetTableBudget(options);
  return options;
}

Fields FieldsOf(StudyOptions& options) {
  const bool text = options.kind == StudyKind::kText;
  constexpr int64_t kMostSteps = int64_t{1} << 32, kMostCharacters = int64_t{1} << 40;
  Fields fields = {Encoders(options.encoders), Schemes(options.positions)};
  const auto add = [&fields](Field field) { fields.push_back(std::move(field)); };
  if (text) {
    add(Choosing(Names("objectives", &options.objectives, {"causal", "masked"},
                       "What models learn to predict: causal: the next character; masked: hidden characters")));
  }
  add(Whole("layers", &options.layers, 1, 64, "Layers"));
  add(Whole("heads", &options.heads, 1, 4096, "Heads of attention; divides the width"));
  add(Whole("width", &options.width, 4, 4096, "Features of a step"));
  add(Whole("context", &options.context, text ? 4 : 2, 1 << 16,
            "Characters of a training window; of a forecast: steps of a window"));
  add(Whole("batch", &options.batch, 1, 1 << 16, "Windows, or sequences, a step"));
  add(Choosing(Number("seconds", options.seconds, 0, 1e6, "Seconds of one core for each training")));
  add(Choosing(Time(NumberFrom("for", options.for_seconds, 0, 1e7,
                               "Choose the model to take for a longer training: its time on one core, as 90s, 15m or 2h, up to "
                               "eight times --seconds; 0: as long as here"))));
  add(Choosing(Whole("steps", &options.all_steps, 0, kMostSteps, "Steps of each training instead of a time; 0: by time")));
  add(Choosing(Numbers("rates", options.rates, 0, 1e12, "Learning rates to choose among, rising")));
  add(Choosing(OrNone(
      Numbers("step_seconds", options.step_seconds, 0, 1e6,
              "Seconds that a step of each model takes, instead of measuring them: repeats the steps of another study"))));
  if (text) {
    add(Whole("validation", &options.validation, 1, kMostCharacters, "Most characters of the part that chooses rates"));
    add(Whole("test", &options.test, 1, kMostCharacters, "Most characters of the part that measures the reported losses"));
  } else {
    add(Whole("horizon", &options.horizon, 1, 1 << 12, "Steps that a forecast predicts, one when not given"));
    add(Whole("longest", &options.longest, 1, 1 << 20,
              "Most steps of a window: of a longer sequence its last steps are read where it has one answer, else all"));
    add(Number(
        "validation_share", options.validation_share, 0, 0.5,
        "Share of the sequences for validation, and as much again for testing; for a forecast, of the end of each sequence"));
  }
  add(Choosing(Number("tolerance", options.tolerance, 0, 1,
                      "Two models are as good when their losses differ by at most this share of the loss, or of a tenth of a "
                      "simple answer's loss")));
  add(Choosing(Names("keep", &options.keep, {"winner", "all"},
                     "Models to keep for later data: the winner in model/, or all of them in models/ too")));
  add(Seeds(options.seeds));
  add(Seed(options.seed));
  add(SideBySide(options.threads));
  return fields;
}

void Validate(const StudyOptions& options) {
  StudyOptions checked = options;
  Check(FieldsOf(checked));
  RequireHeads(options.width, options.heads, options.positions);
  RequireReach(options);
  RequirePace(options.step_seconds, Contenders(options.encoders, options.positions).size() * Tasks(options));
  RequireRising(options.rates);
}

TrainOptions TrainingOf(const StudyOptions& options, int64_t steps, double rate, uint64_t seed) {
  TrainOptions train = ShortTraining(steps, rate, options.kind == StudyKind::kText ? kTextDecay : kTableDecay);
  train.batch = options.batch, train.seed = seed, train.schedule = "free";
  train.eval_every = steps;
  return train;
}

std::string CommandOf(const StudyOptions& options, const std::string& words, const std::filesystem::path& folder) {
  StudyOptions own = options, budget = BudgetOptions(options.budget, options.kind);
  return CommandLine("study", words, options.budget, FieldsOf(own), FieldsOf(budget), folder);
}

}  // namespace heed::lab
