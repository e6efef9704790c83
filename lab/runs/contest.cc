#include "lab/runs/contest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/runs/run.h"
#include "lab/training/divergence.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr const char* kDiverged = "diverged";  // in what a run yields beside its numbers: why it has none
const Measure kValidation = {.name = "validation_loss", .label = "Loss on the validation part"};

// To three digits: what the command that is printed says is what was measured.
double Rounded(double seconds) { return std::stod(fmt::format("{:.3g}", seconds)); }

// A stage of the contest for one model. What it refers to must outlive it.
Part StageOf(const Contest& contest, const std::string& id, const SizedContender& model, int64_t steps, double rate) {
  Part part = {.id = id, .models = {model}, .columns = {}, .steps = steps, .settings = contest.settings, .train = {}};
  part.settings["rate"] = rate;
  part.timed = false;
  return part;
}

// Yields the loss on the validation part alone.
Part ValidationStage(const Contest& contest, const std::string& id, const SizedContender& model, int64_t steps, double rate) {
  Part part = StageOf(contest, id, model, steps, rate);
  part.columns = {{kValidation, 0, /*optional=*/true}};
  part.train = [&contest, steps, rate](const SizedContender& of, uint64_t seed, const OnStep& on_step) -> Outcome {
    try {
      return {{contest.validate({of, steps, rate, seed}, on_step)}};
    } catch (const Divergence& error) {
      return {{NAN}, {{kDiverged, error.what()}}};
    }
  };
  return part;
}

void RequireBlocks(const Json& more, std::size_t blocks) {
  if (more.contains(kDiverged)) return;
  if (more.at("blocks").get<std::vector<double>>().size() != blocks) throw InvalidArgument("blocks: they are not whole");
}

// Yields all that is reported.
Part ReportStage(const Contest& contest, const std::string& id, const SizedContender& model, int64_t steps, double rate) {
  Part part = StageOf(contest, id, model, steps, rate);
  part.columns = contest.columns;
  for (Column& column : part.columns) column.optional = true;
  part.train = [&contest, steps, rate](const SizedContender& of, uint64_t seed, const OnStep& on_step) -> Outcome {
    try {
      return contest.report({of, steps, rate, seed}, on_step);
    } catch (const Divergence& error) {
      return {std::vector<double>(contest.columns.size(), NAN), {{kDiverged, error.what()}}};
    }
  };
  part.check = [&contest](const Json& more) { RequireBlocks(more, contest.weights.size()); };
  return part;
}

std::vector<Entry> EntriesOf(const Contest& contest) {
  std::vector<Entry> entries;
  entries.reserve(contest.models.size());
  for (const SizedContender& model : contest.models) entries.push_back({.model = model, .tried = {}, .curve = {}});
  return entries;
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
    std::vector<Run> runs;
    for (Entry& entry : entries) {
      Json settings = {
          {"encoder", entry.model.encoder}, {"position", entry.model.position}, {"ffn_width", entry.model.ffn_width}};
      settings.update(contest.settings);
      runs.push_back({.name = contest.id + "-pilot-" + entry.model.Id(),
                      .settings = std::move(settings),
                      .work = 1,
                      .compute =
                          [&](const OnWork& on_work) {
                            const double seconds = Rounded(contest.step_seconds(entry.model));
                            on_work(1);
                            return Json{{"step_seconds", seconds}};
                          },
                      .take =
                          [&entry](const Json& result) {
                            entry.step_seconds = result.at("step_seconds").get<double>();
                            if (!(entry.step_seconds > 0)) throw InvalidArgument("step_seconds: it is not positive");
                            return fmt::format("{}: {:.3g} ms a step", entry.model.Label(), 1000 * entry.step_seconds);
                          }});
    }
    DoRuns(what + ": speed", runs, store, /*threads=*/1, options.conduct.quiet);
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
  Conduct conduct = options.conduct;
  conduct.seed += static_cast<uint64_t>(conduct.seeds), conduct.seeds = 1;
  int64_t share = 8;
  for (int round = 1; std::ranges::any_of(choices, [](const Choice& choice) { return choice.left.size() > 1; }); ++round) {
    std::vector<Part> parts;
    for (const Choice& choice : choices) {
      const int64_t steps = std::max<int64_t>(1, choice.entry->steps / share);
      for (const double rate : choice.left.size() > 1 ? choice.left : std::vector<double>()) {
        parts.push_back(
            ValidationStage(contest, fmt::format("{}-rates-{}-{}", contest.id, round, rate), choice.entry->model, steps, rate));
      }
    }
    const std::vector<Measurements> measured =
        RunParts(fmt::format("{}: learning rates {}", what, round), parts, conduct, store);
    std::size_t next = 0;
    for (Choice& choice : choices) {
      if (choice.left.size() < 2) continue;
      std::vector<TriedRate> tried;
      for (const double rate : choice.left) {
        const Measurements& one = measured[next];
        tried.push_back({rate, parts[next].steps, one.Values(one.models().front(), one.columns().front()).front()});
        ++next;
      }
      Halve(choice, std::move(tried));
    }
    share = std::max<int64_t>(1, share / 2);
  }
  for (const Choice& choice : choices) choice.entry->rate = choice.left.empty() ? 0 : choice.left.front();
}

// The trainings that count, in the order in which they are done: which of a contender's it is, and its index.
enum class Stage { kWhole, kCommon, kHalf, kQuarter };
struct Training {
  Stage stage;
  std::size_t entry;
};

class Trainings {
 public:
  Trainings(const Contest& contest, const std::vector<Entry>& entries) : contest_(contest), entries_(entries) {
    common_ = std::numeric_limits<int64_t>::max();
    for (const Entry& entry : entries) {
      if (entry.rate > 0) common_ = std::min(common_, entry.steps);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Entry& entry = entries[i];
      if (entry.rate == 0) continue;
      Add(Stage::kWhole, i, "", entry.steps);
      if (entry.steps != common_) Add(Stage::kCommon, i, "-steps", common_);
      if (entry.steps < 4) continue;
      Add(Stage::kHalf, i, "-half", entry.steps / 2);
      Add(Stage::kQuarter, i, "-quarter", entry.steps / 4);
    }
  }

  const std::vector<Part>& parts() const { return parts_; }
  int64_t common() const { return common_; }
  bool Differ() const {
    return std::ranges::any_of(trainings_, [](const Training& training) { return training.stage == Stage::kCommon; });
  }

  // What was measured in a stage, where it was done.
  const Measurements* Of(Stage stage, std::size_t entry, const std::vector<Measurements>& measured) const {
    for (std::size_t i = 0; i < trainings_.size(); ++i) {
      if (trainings_[i].stage == stage && trainings_[i].entry == entry) return &measured[i];
    }
    return nullptr;
  }

 private:
  void Add(Stage stage, std::size_t i, const std::string& name, int64_t steps) {
    const Entry& entry = entries_[i];
    const bool reported = stage == Stage::kWhole || stage == Stage::kCommon;
    parts_.push_back((reported ? ReportStage : ValidationStage)(contest_, contest_.id + name, entry.model, steps, entry.rate));
    if (!reported) parts_.back().seeds = 1;
    trainings_.push_back({stage, i});
  }

  const Contest& contest_;
  const std::vector<Entry>& entries_;
  int64_t common_;
  std::vector<Part> parts_;
  std::vector<Training> trainings_;
};

// All contenders in one table: of the stage, or where there is none of it, of the whole training; without numbers where a
// contender could not be trained.
Measurements Gathered(const Contest& contest, const ContestOptions& options, Stage stage, const Trainings& trainings,
                      const std::vector<Measurements>& measured) {
  std::vector<Column> columns = contest.columns;
  for (Column& column : columns) column.optional = true;
  Measurements all(contest.id, columns, contest.models, options.conduct.seed, options.conduct.seeds);
  for (std::size_t i = 0; i < contest.models.size(); ++i) {
    const Measurements* own = trainings.Of(stage, i, measured);
    if (own == nullptr) own = trainings.Of(Stage::kWhole, i, measured);
    for (int64_t s = 0; own != nullptr && s < options.conduct.seeds; ++s) {
      all.Put(i, static_cast<std::size_t>(s), own->Of(contest.models[i], static_cast<std::size_t>(s)));
    }
  }
  return all;
}

double FirstSeed(const Measurements& measured) {
  return measured.Values(measured.models().front(), measured.ColumnOf(kValidation.name)).front();
}

void FillCurves(const Trainings& trainings, const std::vector<Measurements>& measured, std::vector<Entry>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Measurements* quarter = trainings.Of(Stage::kQuarter, i, measured);
    if (quarter == nullptr) continue;
    const int64_t steps = entries[i].steps;
    entries[i].curve = {{steps / 4, FirstSeed(*quarter)},
                        {steps / 2, FirstSeed(*trainings.Of(Stage::kHalf, i, measured))},
                        {steps, FirstSeed(*trainings.Of(Stage::kWhole, i, measured))}};
  }
}

std::vector<Judged> JudgeAll(const Measurements& measured, const std::vector<Entry>& entries, bool with_gains,
                             const std::vector<double>& weights) {
  std::vector<Score> scores;
  scores.reserve(entries.size());
  for (const Entry& entry : entries)
    scores.push_back({BlockLosses(measured, entry.model), with_gains ? entry.Gain() : std::nan("")});
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

std::vector<std::vector<double>> BlockLosses(const Measurements& measured, const Contender& model) {
  std::vector<std::vector<double>> losses;
  for (int64_t s = 0; s < measured.seeds(); ++s) {
    const Json& more = measured.More(model, static_cast<std::size_t>(s));
    if (!more.contains("blocks")) return {};
    losses.push_back(more.at("blocks").get<std::vector<double>>());
  }
  return losses;
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
  const Trainings trainings(contest, entries);
  const std::vector<Measurements> measured = RunParts(what, trainings.parts(), options.conduct, store);
  FillCurves(trainings, measured, entries);
  ContestResult result{
      options.rates, entries, Gathered(contest, options, Stage::kWhole, trainings, measured), {}, {}, {}, 0, {}};
  RequireSurvivor(result.at_time);
  result.common_steps = trainings.common();
  result.weights = contest.weights;
  result.verdict = JudgeAll(result.at_time, entries, /*with_gains=*/true, contest.weights);
  if (trainings.Differ()) {
    result.at_steps = Gathered(contest, options, Stage::kCommon, trainings, measured);
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
