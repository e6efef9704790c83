#include "lab/study/study.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lab/data/parts.h"
#include "lab/report/figure.h"
#include "lab/report/output_place.h"
#include "lab/study/plan.h"
#include "lab/training/initialisation.h"

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

// The options then tell how long a step of each model takes, so that the command that is printed gives the same steps.
void HoldContests(const TextParts& parts, const ObserveModel& observe, const ResultStore* store, StudyResult& result) {
  StudyOptions& options = result.options;
  std::vector<double> step_seconds;
  for (const std::string& name : options.objectives) {
    const Objective objective = ParseObjective(name);
    const Contest contest = ContestOf(parts, options, objective, observe);
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

}  // namespace

const ContestResult* StudyResult::Of(Objective objective) const {
  const auto contest = std::ranges::find(options.objectives, ToString(objective));
  return contest == options.objectives.end() ? nullptr : &contests[contest - options.objectives.begin()];
}

StudyResult RunStudy(const Text& text, const StudyOptions& options, const std::filesystem::path& folder,
                     const ObserveModel& observe) {
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
  // They show now and not after the training.
  RequireWritableFolder(folder);
  RequireGnuplot();
  result.counted = CountText(parts.train, result.vocabulary, parts.validation, parts.test);
  HoldContests(parts, observe, &store, result);
  result.command = CommandOf(result.options, text.path, folder);
  return result;
}

}  // namespace heed::lab
