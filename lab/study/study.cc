#include "lab/study/study.h"

#include <algorithm>
#include <utility>

#include "lab/report/figure.h"
#include "lab/report/output_place.h"
#include "lab/report/result_store.h"

namespace heed::lab {

const Baseline& StudiedTask::BestBaseline() const { return *std::ranges::min_element(baselines, {}, &Baseline::loss); }

StudyResult RunStudy(const Subject& subject, const StudyOptions& options, const std::filesystem::path& folder) {
  Validate(options);
  StudyResult result{options, subject.words, {}, folder, ThisEnvironment(), subject.facts, {}};
  nlohmann::ordered_json shared = subject.settings;
  shared.update(ResultSettings(result.environment));
  const ResultStore store(folder / "runs", shared);
  // They show now and not after the training.
  RequireWritableFolder(folder);
  RequireGnuplot();
  std::vector<double> step_seconds;
  for (const std::unique_ptr<StudyTask>& task : subject.tasks) {
    ContestOptions own{.seconds = options.seconds,
                       .steps = options.all_steps,
                       .rates = options.rates,
                       .step_seconds = {},
                       .tolerance = options.tolerance,
                       .conduct = {options.seed, options.seeds, options.threads, options.quiet}};
    if (!options.step_seconds.empty()) {
      const auto first = options.step_seconds.begin() + std::ssize(result.tasks) * std::ssize(task->models);
      own.step_seconds.assign(first, first + std::ssize(task->models));
    }
    std::vector<Baseline> baselines = task->Baselines(options.threads);
    result.tasks.push_back({task->id, task->question, std::move(baselines), Hold(task->question.name, *task, own, &store)});
    for (const Entry& entry : result.tasks.back().contest.entries) step_seconds.push_back(entry.step_seconds);
  }
  // The options then tell how long a step of each model takes, so that the command that is printed gives the same steps.
  if (options.all_steps == 0) result.options.step_seconds = std::move(step_seconds);
  result.command = CommandOf(result.options, subject.words, folder);
  return result;
}

}  // namespace heed::lab
