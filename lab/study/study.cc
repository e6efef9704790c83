#include "lab/study/study.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include "lab/data/corpus.h"
#include "lab/data/parts.h"
#include "lab/study/figures.h"
#include "lab/study/plan.h"
#include "lab/training/initialisation.h"
#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

int64_t Characters(const std::vector<std::vector<int32_t>>& blocks) {
  int64_t characters = 0;
  for (const std::vector<int32_t>& block : blocks) characters += std::ssize(block);
  return characters;
}

// What every run depends on beside its own options.
nlohmann::ordered_json SharedSettings(const StudyResult& result) {
  nlohmann::ordered_json settings = {
      {"text", {{"characters", result.text.characters}, {"fingerprint", result.text.fingerprint}}},
      {"block", result.block},
      {"length_multiples", kLengthMultiples},
      {"initial_deviation", InitialDeviation(result.options.width)}};
  settings.update(ResultSettings(result.environment));
  return settings;
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

// The options then tell how long a step of each model takes, so that the command that is printed gives the same steps.
void HoldContests(const TextParts& parts, const ResultStore* store, StudyResult& result) {
  StudyOptions& options = result.options;
  std::vector<double> step_seconds;
  for (const std::string& name : options.objectives) {
    const Objective objective = ParseObjective(name);
    const Contest contest = ContestOf(parts, options, objective);
    ContestOptions own{.seconds = options.seconds,
                       .steps = options.all_steps,
                       .rates = options.rates,
                       .step_seconds = {},
                       .conduct = {options.seed, options.seeds, options.threads, options.quiet}};
    if (!options.step_seconds.empty()) {
      const auto first = options.step_seconds.begin() + std::ssize(result.contests) * std::ssize(contest.models);
      own.step_seconds.assign(first, first + std::ssize(contest.models));
    }
    const char* what = objective == Objective::kCausal ? "next character" : "hidden characters";
    result.contests.push_back(Hold(what, contest, own, store));
    for (const Entry& entry : result.contests.back().entries) step_seconds.push_back(entry.step_seconds);
  }
  if (options.all_steps == 0) options.step_seconds = std::move(step_seconds);
}

// What is told beside the contests.
void MeasureMore(const Text& text, const std::filesystem::path& folder, const ResultStore* store, StudyResult& result) {
  const StudyOptions& options = result.options;
  if (const std::optional<DepthOptions> depth = DeepStacks(options)) {
    Corpus corpus = MakeCorpus(text, options.context);
    corpus.validation.resize(std::min<std::size_t>(corpus.validation.size(), options.validation));
    result.depth = MeasureDepth(corpus, *depth, "deep stacks", store);
  }
  if (!options.quiet) std::fprintf(stderr, "positions\n");
  result.rotation = CheckRotation(PositionsOptions());
  if (!options.quiet) std::fprintf(stderr, "single layers\n");
  result.comparison = CompareLayers(options);
  if (!options.tasks.tasks.empty()) {
    const ResultStore tasks(folder / "task-runs", ResultSettings(result.environment));
    result.tasks = RunTasks(TasksOf(options), "tasks", &tasks);
  }
}

}  // namespace

const ContestResult* StudyResult::Of(Objective objective) const {
  const auto contest = std::ranges::find(options.objectives, ToString(objective));
  return contest == options.objectives.end() ? nullptr : &contests[contest - options.objectives.begin()];
}

StudyResult RunStudy(const Text& text, const StudyOptions& options, const std::filesystem::path& folder) {
  Validate(options);
  TextParts parts = SplitText(text, kLengthMultiples[std::size(kLengthMultiples) - 1] * options.context);
  parts.validation = SpreadOut(parts.validation, options.validation);
  parts.test = SpreadOut(parts.test, options.test);

  StudyResult result;
  result.options = options;
  result.path = text.path, result.folder = folder;
  result.environment = ThisEnvironment();
  result.text = Identify(text);
  result.vocabulary = parts.vocabulary.size();
  result.block = parts.block;
  result.training = parts.train.size();
  result.validation = Characters(parts.validation), result.test = Characters(parts.test);
  const ResultStore store(folder / "runs", SharedSettings(result));
  // A folder that cannot be written, or no program to draw with, shows now and not after the training.
  WriteFigure(StudyPositionFigures(folder).front(), folder);
  result.counted = CountText(parts.train, result.vocabulary, parts.validation, parts.test);
  try {
    HoldContests(parts, &store, result);
    MeasureMore(text, folder, &store, result);
  } catch (const Interruption&) {
    throw Interruption("interrupted; finished runs are kept in " + folder.string() +
                       ", and the same command goes on from there");
  }
  result.command = CommandOf(result.options, text.path, folder);
  return result;
}

}  // namespace heed::lab
