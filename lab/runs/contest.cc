#include "lab/runs/contest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/runs/job.h"
#include "lab/training/divergence.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostSteps = int64_t{1} << 40;
const Measure kValidation = {.name = "validation_loss", .label = "Loss on the validation part"};
const Measure kStepSeconds = {.name = "step_seconds",
                              .label = "Seconds of a step",
                              .phrase = "{} ms a step",
                              .digits = 3,
                              .significant = true,
                              .unit = 1e-3};

// To three digits: what the command that is printed says is what was measured.
double Rounded(double seconds) { return std::stod(fmt::format("{:.3g}", seconds)); }

// A training that yields the loss on the validation part alone. What it refers to must outlive it.
Job ValidationJob(const Contest& contest, const std::string& id, const SizedContender& model, int64_t steps, double rate,
                  uint64_t seed) {
  Job job = TrainingJob(id, model, steps, seed, contest.settings);
  job.settings["rate"] = rate;
  job.timed = false;
  job.columns = {{kValidation, 0, /*optional=*/true}};
  job.compute = [&contest, &model, steps, rate, seed](const OnWork& on_work) {
    Outcome outcome{.values = {NAN}};
    try {
      outcome.values = {contest.Validate({model, steps, rate, seed}, [&on_work] { on_work(1); })};
    } catch (const Divergence& error) {
      outcome.diverged = error.what();
    }
    return outcome;
  };
  return job;
}

// A training that yields all that is reported.
Job ReportJob(const Contest& contest, const std::string& id, const SizedContender& model, int64_t steps, double rate,
              uint64_t seed) {
  Job job = ValidationJob(contest, id, model, steps, rate, seed);
  job.columns = contest.columns;
  for (Column& column : job.columns) column.optional = true;
  job.compute = [&contest, &model, steps, rate, seed](const OnWork& on_work) {
    try {
      return contest.Report({model, steps, rate, seed}, [&on_work] { on_work(1); });
    } catch (const Divergence& error) {
      return Outcome{.values = std::vector<double>(contest.columns.size(), NAN), .diverged = error.what()};
    }
  };
  job.check = [&contest](const Outcome& outcome) {
    if (outcome.diverged.empty() && outcome.blocks.size() != contest.weights.size())
      throw InvalidArgument("blocks: they are not whole");
  };
  return job;
}

std::vector<Entry> EntriesOf(const Contest& contest) {
  std::vector<Entry> entries;
  entries.reserve(contest.models.size());
  for (const SizedContender& model : contest.models) entries.push_back({.model = model, .tried = {}, .curve = {}});
  return entries;
}

// A training of a second or so that yields how long a step takes.
Job PilotJob(const Contest& contest, const SizedContender& model) {
  Job job{.name = contest.id + "-pilot-" + model.Id(),
          .settings = {{"encoder", model.encoder}, {"position", model.position}, {"ffn_width", model.ffn_width}},
          .work = 1,
          .label = model.Label(),
          .columns = {{kStepSeconds}},
          .compute =
              [&contest, &model](const OnWork& on_work) {
                Outcome outcome{.values = {Rounded(contest.StepSeconds(model))}};
                on_work(1);
                return outcome;
              },
          .check =
              [](const Outcome& outcome) {
                if (!(outcome.values.front() > 0)) throw InvalidArgument("step_seconds: it is not positive");
              }};
  job.settings.update(contest.settings);
  return job;
}

// Fills in how long a step takes and how many steps there are.
void Pace(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store,
          std::vector<Entry>& entries) {
  if (options.steps > 0) {
    for (Entry& entry : entries) entry.steps = options.steps;
    return;
  }
  if (!options.step_seconds.empty()) {
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i].step_seconds = options.step_seconds[i];
  } else {
    std::vector<Job> jobs;
    jobs.reserve(entries.size());
    for (const Entry& entry : entries) jobs.push_back(PilotJob(contest, entry.model));
    const std::vector<Outcome> outcomes = DoJobs(what + ": speed", jobs, store, /*threads=*/1, options.conduct.quiet);
    for (std::size_t i = 0; i < entries.size(); ++i) entries[i].step_seconds = outcomes[i].values.front();
  }
  for (Entry& entry : entries) {
    const double steps = std::round(options.seconds / entry.step_seconds);
    entry.steps = static_cast<int64_t>(std::clamp(steps, 1.0, static_cast<double>(kMostSteps)));
  }
}

// One round of successive halving for a contender: the rates that are left, the best last at the end.
struct Choice {
  Entry* entry;
  std::vector<double> left;
};

void Halve(Choice& choice, std::vector<TriedRate> round) {
  choice.entry->tried.insert(choice.entry->tried.end(), round.begin(), round.end());
  std::erase_if(round, [](const TriedRate& tried) { return !std::isfinite(tried.loss); });
  std::ranges::stable_sort(round, {}, &TriedRate::loss);
  round.resize(std::min(round.size(), (choice.left.size() + 1) / 2));
  choice.left.clear();
  for (const TriedRate& tried : round) choice.left.push_back(tried.rate);
  std::ranges::sort(choice.left);
}

// Fills in which rate suits each contender.
void ChooseRates(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store,
                 std::vector<Entry>& entries) {
  std::vector<Choice> choices;
  choices.reserve(entries.size());
  for (Entry& entry : entries) choices.push_back({&entry, options.rates});
  const uint64_t seed = options.conduct.seed + static_cast<uint64_t>(options.conduct.seeds);  // one that is not reported
  int64_t share = 8;
  for (int round = 1; std::ranges::any_of(choices, [](const Choice& choice) { return choice.left.size() > 1; }); ++round) {
    std::vector<Job> jobs;
    for (const Choice& choice : choices) {
      const int64_t steps = std::max<int64_t>(1, choice.entry->steps / share);
      for (const double rate : choice.left.size() > 1 ? choice.left : std::vector<double>()) {
        jobs.push_back(ValidationJob(contest, fmt::format("{}-rates-{}-{}", contest.id, round, rate), choice.entry->model,
                                     steps, rate, seed));
      }
    }
    const std::vector<Outcome> outcomes =
        DoJobs(fmt::format("{}: learning rates {}", what, round), jobs, store, options.conduct.threads, options.conduct.quiet);
    std::size_t next = 0;
    for (Choice& choice : choices) {
      if (choice.left.size() < 2) continue;
      std::vector<TriedRate> tried;
      for (const double rate : choice.left) {
        tried.push_back({rate, jobs[next].work, outcomes[next].values.front()});
        ++next;
      }
      Halve(choice, std::move(tried));
    }
    share = std::max<int64_t>(1, share / 2);
  }
  for (const Choice& choice : choices) choice.entry->rate = choice.left.empty() ? 0 : choice.left.front();
}

// The trainings that count: of each contender with every seed for all its steps, for the steps of the slowest where those are
// fewer, and with the first seed for a half and a quarter of them.
enum class Stage { kWhole, kCommon, kHalf, kQuarter };

class Trainings {
 public:
  Trainings(const Contest& contest, const std::vector<Entry>& entries, const Conduct& conduct)
      : contest_(contest), entries_(entries), conduct_(conduct) {
    common_ = std::numeric_limits<int64_t>::max();
    for (const Entry& entry : entries) {
      if (entry.rate > 0) common_ = std::min(common_, entry.steps);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const int64_t steps = entries[i].steps;
      if (entries[i].rate == 0) continue;
      Add(Stage::kWhole, i, "", steps);
      if (steps != common_) Add(Stage::kCommon, i, "-steps", common_);
      if (steps < 4) continue;
      Add(Stage::kHalf, i, "-half", steps / 2);
      Add(Stage::kQuarter, i, "-quarter", steps / 4);
    }
  }

  void Do(const std::string& what, const ResultStore* store) {
    outcomes_ = DoJobs(what, jobs_, store, conduct_.threads, conduct_.quiet);
  }
  int64_t common() const { return common_; }
  bool Differ() const {
    return std::ranges::any_of(first_, [](const auto& job) { return job.first.first == Stage::kCommon; });
  }

  // All contenders in one table: of the stage, or where there is none of it, of the whole training; without numbers where a
  // contender could not be trained.
  Measurements Gathered(Stage stage) const {
    std::vector<Column> columns = contest_.columns;
    for (Column& column : columns) column.optional = true;
    Measurements all(contest_.id, columns, contest_.models, conduct_.seed, conduct_.seeds);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      auto first = first_.find({stage, i});
      if (first == first_.end()) first = first_.find({Stage::kWhole, i});
      if (first == first_.end()) continue;
      for (std::size_t s = 0; s < static_cast<std::size_t>(conduct_.seeds); ++s) all.Put(i, s, outcomes_[first->second + s]);
    }
    return all;
  }

  // The losses on the validation part by steps, of the first seed; nothing where a quarter of the steps is none.
  std::vector<CurvePoint> CurveOf(std::size_t entry) const {
    const auto quarter = first_.find({Stage::kQuarter, entry});
    if (quarter == first_.end()) return {};
    const auto column = std::ranges::find(contest_.columns, kValidation.name, [](const Column& of) { return of.measure.name; });
    const double whole = outcomes_[first_.at({Stage::kWhole, entry})].values[column - contest_.columns.begin()];
    const int64_t steps = entries_[entry].steps;
    return {{steps / 4, outcomes_[quarter->second].values.front()},
            {steps / 2, outcomes_[first_.at({Stage::kHalf, entry})].values.front()},
            {steps, whole}};
  }

 private:
  void Add(Stage stage, std::size_t i, const std::string& name, int64_t steps) {
    const Entry& entry = entries_[i];
    const bool reported = stage == Stage::kWhole || stage == Stage::kCommon;
    first_[{stage, i}] = jobs_.size();
    for (int64_t s = 0; s < (reported ? conduct_.seeds : 1); ++s) {
      jobs_.push_back((reported ? ReportJob : ValidationJob)(contest_, contest_.id + name, entry.model, steps, entry.rate,
                                                             conduct_.seed + static_cast<uint64_t>(s)));
    }
  }

  const Contest& contest_;
  const std::vector<Entry>& entries_;
  const Conduct& conduct_;
  int64_t common_;
  std::vector<Job> jobs_;
  std::map<std::pair<Stage, std::size_t>, std::size_t> first_;  // a contender's first job in a stage
  std::vector<Outcome> outcomes_;
};

std::vector<Judged> JudgeAll(const Measurements& measured, const std::vector<Entry>& entries, bool with_gains,
                             const std::vector<double>& weights) {
  std::vector<Score> scores;
  scores.reserve(entries.size());
  for (const Entry& entry : entries)
    scores.push_back({measured.BlockLosses(entry.model), with_gains ? entry.Gain() : std::nan("")});
  return Judge(scores, weights);
}

void RequireSurvivor(const Measurements& measured) {
  const Column& loss = measured.ColumnOf("loss");
  if (std::ranges::any_of(measured.models(), [&](const Contender& model) { return measured.Reaches(model, loss); })) return;
  throw Divergence("every model left the finite numbers at every rate that was tried; lower rates may help");
}

Json ToJson(const std::vector<Judged>& verdict, const std::vector<Entry>& entries) {
  Json json = Json::array();
  for (const Judged& judged : verdict) {
    json.push_back({{"model", entries[judged.contender].model.Id()},
                    {"standing", ToString(judged.standing)},
                    {"loss", NumberOrNull(judged.loss)},
                    {"gap", NumberOrNull(judged.gap)},
                    {"gap_by_seeds", ToJson(judged.by_seeds)},
                    {"gap_by_blocks", ToJson(judged.by_blocks)},
                    {"gap_by_both", ToJson(judged.by_both)}});
  }
  return json;
}

Json ToJson(const Entry& entry) {
  Json json = {{"model", entry.model.Id()}, {"steps", entry.steps}};
  if (entry.step_seconds > 0) json["step_seconds"] = entry.step_seconds;
  json["rate"] = entry.rate > 0 ? Json(entry.rate) : Json(nullptr);
  json["rates"] = Json::array();
  for (const TriedRate& tried : entry.tried) {
    json["rates"].push_back({{"rate", tried.rate}, {"steps", tried.steps}, {"validation_loss", NumberOrNull(tried.loss)}});
  }
  json["curve"] = Json::array();
  for (const CurvePoint& point : entry.curve) {
    json["curve"].push_back({{"steps", point.steps}, {"validation_loss", NumberOrNull(point.loss)}});
  }
  json["gain_of_doubling"] = NumberOrNull(entry.Gain());
  json["foretold"] = NumberOrNull(entry.Foretold());
  return json;
}

}  // namespace

double Entry::Gain() const {
  if (curve.size() < 3) return NAN;
  const double half = curve[1].loss, whole = curve[2].loss;
  return std::max(0.0, whole * (1 - whole / half));
}

double Entry::Foretold() const {
  if (curve.size() < 3) return NAN;
  return curve[1].loss * curve[1].loss / curve[0].loss;
}

std::vector<const Entry*> ContestResult::InTheRunning() const {
  std::vector<const Entry*> running;
  for (const Judged& judged : verdict) {
    const Standing standing = judged.standing;
    if (standing == Standing::kBehind || standing == Standing::kDiverged) continue;
    running.push_back(&entries[judged.contender]);
  }
  return running;
}

std::vector<Judged> JudgeSome(const ContestResult& result,
                              const std::function<std::vector<std::vector<double>>(const Entry& entry)>& losses) {
  std::vector<Score> scores;
  scores.reserve(result.entries.size());
  for (const Entry& entry : result.entries) scores.push_back({losses(entry), entry.Gain()});
  if (std::ranges::all_of(scores, [](const Score& score) { return score.losses.empty(); })) return {};
  std::vector<Judged> judged = Judge(scores, result.weights);
  std::erase_if(judged, [](const Judged& one) { return one.standing == Standing::kDiverged; });
  return judged;
}

ContestResult Hold(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store) {
  std::vector<Entry> entries = EntriesOf(contest);
  Pace(what, contest, options, store, entries);
  for (Entry& entry : entries) entry.rate = options.rates.front();
  if (options.rates.size() > 1) ChooseRates(what, contest, options, store, entries);
  Trainings trainings(contest, entries, options.conduct);
  trainings.Do(what, store);
  for (std::size_t i = 0; i < entries.size(); ++i) entries[i].curve = trainings.CurveOf(i);
  ContestResult result{options.rates, entries, trainings.Gathered(Stage::kWhole), {}, {}, {}, 0, {}};
  RequireSurvivor(result.at_time);
  result.common_steps = trainings.common();
  result.weights = contest.weights;
  result.verdict = JudgeAll(result.at_time, entries, /*with_gains=*/true, contest.weights);
  if (trainings.Differ()) {
    result.at_steps = trainings.Gathered(Stage::kCommon);
    result.steps_verdict = JudgeAll(*result.at_steps, entries, /*with_gains=*/false, contest.weights);
  }
  return result;
}

Json ToJson(const ContestResult& result) {
  Json json = {{"rates", result.rates}, {"contenders", Json::array()}, {"verdict", ToJson(result.verdict, result.entries)}};
  for (const Entry& entry : result.entries) json["contenders"].push_back(ToJson(entry));
  if (result.at_steps) {
    json["equal_steps"] = {{"steps", result.common_steps},
                           {"verdict", ToJson(result.steps_verdict, result.entries)},
                           {"models", result.at_steps->Json({"training_loss"})}};
  }
  return json;
}

}  // namespace heed::lab
