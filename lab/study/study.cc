#include "lab/study/study.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/safetensors.h"
#include "heed/shown_name.h"
#include "lab/options/fields.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/report/result_store.h"
#include "lab/runs/contender.h"
#include "lab/runs/contest.h"
#include "lab/runs/job.h"
#include "lab/training/course.h"
#include "lab/training/interrupt.h"

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

// A learner's course as a training of a contest.
class CourseTraining : public Training {
 public:
  CourseTraining(std::unique_ptr<StudyLearner> learner, const TrainOptions& options)
      : learner_(*learner), course_(std::move(learner), options) {}

  Outcome Reach(int64_t steps, const OnStep& on_step) override {
    course_.GoOn(steps, {.on_step = [&](const FitStep&) { on_step(); }});
    return OnItsWay();
  }

  Outcome Report() override {
    Outcome outcome;
    course_.AtBest([&] { outcome = learner_.Measured(); });
    Outcome way = OnItsWay();
    outcome.values.push_back(way.values.front());
    outcome.validation = std::move(way.validation), outcome.curve = std::move(way.curve), outcome.best_steps = way.best_steps;
    return outcome;
  }

  void Keep(const std::filesystem::path& path) override {
    std::map<std::string, at::Tensor> weights;
    for (const auto& [name, parameter] : course_.parameters()) weights.emplace(name, parameter.detach());
    MakeFolderOf(path);
    course_.AtBest([&] { nn::WriteSafetensors(path.string(), weights, {{"format", "pt"}}); });
  }

 private:
  Outcome OnItsWay() const {
    const CurvePoint& best = course_.best();
    return {
        .values = {best.validation}, .validation = course_.best_blocks(), .curve = course_.curve(), .best_steps = best.steps};
  }

  StudyLearner& learner_;
  Course course_;
};

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

std::unique_ptr<Training> StudyTask::Begin(const Trial& trial) const {
  return std::make_unique<CourseTraining>(LearnerOf(trial), TrainingOf(options_, trial.steps, trial.rate, trial.seed));
}

double StudyTask::StepSeconds(const SizedContender& model) const {
  const Trial trial{model, 1, options_.rates.front(), options_.seed};
  return lab::StepSeconds(*LearnerOf(trial), TrainingOf(options_, trial.steps, trial.rate, trial.seed));
}

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
    if (!baseline.kept.kind.empty()) task.KeepBaseline(baseline, folder / *kept.insert(name).first);
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
  if (!baseline.kept.kind.empty() && !WorthOf(studied).ahead) {
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
                       .seed = options.seed,
                       .seeds = options.seeds,
                       .threads = options.threads,
                       .quiet = options.quiet};
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
