#include "lab/study/study.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/shown_name.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/report/result_store.h"
#include "lab/runs/job.h"
#include "lab/study/findings.h"
#include "lab/training/interrupt.h"

namespace heed::lab {

const Baseline& StudiedTask::BestBaseline() const { return *std::ranges::min_element(baselines, {}, &Baseline::validation); }

namespace {

// A folder of a run of heed train is not to be overwritten.
void RequireNoRun(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "checkpoint.safetensors"))
    throw InvalidArgument("out: " + folder.string() + " holds a run of heed train; move it away or choose another folder");
}

// Another file's figures would stand beside those of this one, and its kept models would be lost.
void RequireSameData(const DataFacts& data, const std::filesystem::path& folder) {
  const std::optional<EarlierStudy> earlier = EarlierStudyIn(folder);
  if (!earlier) return;
  const bool same = earlier->name == data.name || earlier->fingerprint == data.fingerprint;
  if (same && earlier->kind == data.json.at("kind").get<std::string>()) return;
  throw InvalidArgument(fmt::format("out: {} holds the study of {}, read as a {}; remove the folder or choose another",
                                    folder.string(), ShownName(earlier->name), ShownName(earlier->kind)));
}

// What an earlier study of this task kept and this one did not is removed: it is on no page any more.
void KeepAll(const StudyTask& task, const StudiedTask& studied, const ResultStore& store, uint64_t seed,
             const std::filesystem::path& folder) {
  std::set<std::string> kept;
  for (const Entry& entry : studied.contest.entries) {
    const std::filesystem::path weights = WeightsIn(store, task, entry.model, seed);
    if (entry.stopped || entry.runs == 0 || !std::filesystem::exists(weights)) continue;
    const std::string name = *kept.insert(task.id + "-" + entry.model.Id()).first;
    task.KeepModel(entry, studied.contest.at_time.Of(entry.model, 0), weights, folder / name);
  }
  for (const Baseline& baseline : studied.baselines) {
    std::string name = task.id + "-" + baseline.name;
    std::ranges::replace(name, ' ', '-');
    if (baseline.kept) task.KeepBaseline(baseline, folder / *kept.insert(name).first);
  }
  if (kept.empty()) return;
  std::vector<std::filesystem::path> earlier;
  for (const auto& one : std::filesystem::directory_iterator(folder)) {
    const std::string name = one.path().filename().string();
    if (name.starts_with(task.id + "-") && !kept.contains(name) && std::filesystem::exists(one.path() / "config.json"))
      earlier.push_back(one.path());
  }
  for (const std::filesystem::path& one : earlier) std::filesystem::remove_all(one);
}

// What it is.
std::string KeepWinner(const StudyTask& task, const StudiedTask& studied, const ResultStore& store, uint64_t seed,
                       const std::filesystem::path& folder) {
  const Baseline& baseline = studied.BestBaseline();
  if (baseline.kept && !WorthOf(studied).ahead) {
    task.KeepBaseline(baseline, folder);
    return baseline.Phrase();
  }
  const Entry& entry = TakenOf(studied.contest);
  task.KeepModel(entry, studied.contest.at_time.Of(entry.model, 0), WeightsIn(store, task, entry.model, seed), folder);
  return entry.model.Phrase();
}

}  // namespace

StudyResult RunStudy(const Subject& subject, const StudyOptions& options, const std::filesystem::path& folder) {
  Validate(options);
  StudyResult result{options, subject.words, {}, folder, ThisEnvironment(), subject.facts, {}};
  nlohmann::ordered_json shared = subject.settings;
  shared.update(ResultSettings(result.environment));
  const ResultStore store(folder / "runs", shared);
  // They show now and not after the training.
  RequireWritableFolder(folder);
  RequireSameData(subject.facts, folder);
  for (const std::unique_ptr<StudyTask>& task : subject.tasks)
    if (!task->keeps.empty()) RequireNoRun(folder / task->keeps);
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
  for (std::size_t i = 0; i < result.tasks.size(); ++i) {
    const StudyTask& task = *subject.tasks[i];
    if (task.keeps.empty()) continue;
    std::string kept = KeepWinner(task, result.tasks[i], store, options.seed, folder / task.keeps);
    if (i == 0) result.kept = std::move(kept);
  }
  for (std::size_t i = 0; options.keep == "all" && i < result.tasks.size(); ++i)
    KeepAll(*subject.tasks[i], result.tasks[i], store, options.seed, folder / "models");
  result.command = CommandOf(result.options, subject.words, folder);
  return result;
}

TrainedOne TrainOne(const Subject& subject, const StudyOptions& options, const std::filesystem::path& folder) {
  RequireWritableFolder(folder);
  if (std::filesystem::exists(folder / "config.json"))
    throw InvalidArgument("out: " + folder.string() + " holds a model already; remove it or choose another folder");
  if (std::filesystem::exists(folder / "study.json"))
    throw InvalidArgument("out: " + folder.string() + " holds a study, whose split.csv would be lost; choose another folder");
  const StudyTask& task = *subject.tasks.front();
  if (task.models.size() != 1 || options.rates.size() != 1)
    throw InvalidArgument("encoder, position, lr: expected one model and one rate");
  const Entry entry{.model = task.models.front(), .rate = options.rates.front(), .tried = {}, .curve = {}};
  std::unique_ptr<Training> training;
  Job job = TrainingJob(task.id, entry.model, options.all_steps, options.seed, task.settings);
  job.columns = task.columns;
  job.compute = [&](const OnWork& on_work) {
    int64_t left = options.all_steps;  // a course may end before
    training = task.Begin({entry.model, options.all_steps, entry.rate, options.seed});
    training->Reach(options.all_steps, [&] { --left, on_work(1); });
    on_work(left);
    return training->Report();
  };
  TrainedOne trained{entry.model, task.columns, {}};
  try {
    trained.outcome = DoJobs("train", {job}, nullptr, /*threads=*/1, options.quiet).front();
  } catch (const Interruption& interruption) {
    throw Interruption(interruption.what() + std::string("; nothing was written"));
  }
  const std::filesystem::path weights = folder / "model.safetensors";
  training->Keep(weights);
  task.KeepModel(entry, trained.outcome, weights, folder);
  return trained;
}

}  // namespace heed::lab
