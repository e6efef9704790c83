#include "lab/study/study.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>

#include "heed/error.h"
#include "lab/runs/experiment.h"
#include "lab/study/figures.h"
#include "lab/study/plan.h"
#include "lab/study/run.h"
#include "lab/training/initialisation.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

// The validation part must hold a window of the longest evaluation, else there is nothing to measure at that length.
void RequireLongEnough(const Text& text, const StudyOptions& options) {
  const int64_t length = static_cast<int64_t>(text.characters.size());
  const int64_t window = kLengthMultiples[std::size(kLengthMultiples) - 1] * options.context + 1;
  if (length - TrainLength(length) >= window) return;
  throw InvalidArgument("text '" + text.name + "' has " + std::to_string(length) + " characters; a study with a context of " +
                        std::to_string(options.context) + " needs at least " + std::to_string(10 * window) +
                        ", as a tenth of them is evaluated at up to " + std::to_string(window - 1));
}

// What every run depends on beside its own options.
nlohmann::ordered_json SharedSettings(const StudyResult& result) {
  nlohmann::ordered_json settings = {
      {"text", {{"characters", result.text.characters}, {"fingerprint", result.text.fingerprint}}},
      {"validation", result.validation},
      {"length_multiples", kLengthMultiples},
      {"initial_deviation", InitialDeviation(result.options.width)}};
  settings.update(ResultSettings(result.environment));
  return settings;
}

// What it refers to must outlive it.
Part PartOf(const Corpus& corpus, StudyOptions& options, Objective objective) {
  return {.id = ToString(objective),
          .models = PlanModels(options, objective, corpus.vocabulary),
          .columns = StudyColumns(options, objective),
          .steps = options.steps(objective),
          .settings = RunSettingsOf(FieldsOf(options)),
          .train =
              [&corpus, &options, objective](const SizedContender& model, uint64_t seed, const std::function<void()>& on_step) {
                return TrainAndEvaluate(corpus, TrainingOf(options, objective, model, seed), on_step);
              },
          .check = [](const nlohmann::ordered_json& more) { TableOf(more); }};
}

Comparison CompareLayers(const StudyOptions& options) {
  ComparisonOptions comparison;
  comparison.layers = LayersNamed(
      {"convolution", "convolution-causal", "dilated-causal", "rnn", "gru", "lstm", "attention", "attention-causal"});
  comparison.lengths = options.compared_lengths;
  comparison.width = options.width;
  comparison.heads = options.heads;
  comparison.influence_length = comparison.lengths.back();
  comparison.seed = options.seed;
  comparison.quiet = options.quiet;
  return Compare(comparison);
}

}  // namespace

std::vector<Measurements> TrainModels(const std::string& what, const Corpus& corpus, const StudyOptions& options,
                                      const ResultStore* store) {
  StudyOptions own = options;
  return RunParts(what, {PartOf(corpus, own, Objective::kCausal), PartOf(corpus, own, Objective::kMasked)},
                  {options.seed, options.seeds, options.threads, options.quiet}, store);
}

StudyResult RunStudy(const Text& text, const StudyOptions& options, const std::filesystem::path& folder) {
  Validate(options);
  RequireLongEnough(text, options);
  Corpus corpus = MakeCorpus(text, options.context);
  corpus.validation.resize(std::min<std::size_t>(corpus.validation.size(), options.validation));

  StudyResult result;
  result.options = options;
  result.command = CommandOf(options, text.path, folder);
  result.environment = ThisEnvironment();
  result.text = Identify(text);
  result.vocabulary = corpus.vocabulary.size();
  result.training = static_cast<int64_t>(corpus.train.size());
  result.validation = static_cast<int64_t>(corpus.validation.size());
  result.baselines = CountBaselines(corpus);
  const ResultStore store(folder / "runs", SharedSettings(result));
  // A folder that cannot be written, or no program to draw with, shows now and not after the training.
  WriteFigure(StudyPositionFigures(folder).front(), folder);
  try {
    result.objectives = TrainModels("1/5 models", corpus, options, &store);
    if (const std::optional<DepthOptions> depth = DeepStacks(options)) {
      result.depth = MeasureDepth(corpus, *depth, "2/5 deep stacks", &store);
    }
    if (!options.quiet) std::fprintf(stderr, "3/5 positions\n");
    result.rotation = CheckRotation(PositionsOptions());
    if (!options.quiet) std::fprintf(stderr, "4/5 single layers\n");
    result.comparison = CompareLayers(options);
    if (!options.tasks.tasks.empty()) {
      const ResultStore tasks(folder / "task-runs", ResultSettings(result.environment));
      result.tasks = RunTasks(TasksOf(options), "5/5 tasks", &tasks);
    }
  } catch (const Interruption&) {
    throw Interruption("interrupted; finished runs are kept in " + folder.string() +
                       ", and the same command goes on from there");
  }
  return result;
}

}  // namespace heed::lab
