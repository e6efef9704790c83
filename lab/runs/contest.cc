#include "lab/runs/contest.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/runs/job.h"
#include "lab/training/curve.h"

namespace heed::lab {
namespace {

const Measure kStepSeconds = {.name = "step_seconds",
                              .label = "Seconds of a step",
                              .phrase = "{} ms a step",
                              .digits = 3,
                              .significant = true,
                              .unit = 1e-3};

double Rounded(double seconds) { return std::stod(fmt::format("{:.3g}", seconds)); }

// A training of a second or so that yields how long a step takes. Each runs alone: beside another, who that is would enter.
Job PilotJob(const Contest& contest, const SizedContender& model, int time) {
  Job job{.name = fmt::format("{}-pilot-{}-{}", contest.id, time, model.Id()),
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

using Json = nlohmann::ordered_json;

Json ToJson(const std::vector<Judged>& verdict, const std::vector<Entry>& entries) {
  Json json = Json::array();
  for (const Judged& judged : verdict) {
    json.push_back({{"model", entries[judged.contender].model.Id()},
                    {"standing", ToString(judged.standing)},
                    {"loss", judged.loss},
                    {"gap", judged.gap},
                    {"gap_by_seeds", ToJson(judged.by_seeds)},
                    {"gap_by_blocks", ToJson(judged.by_blocks)},
                    {"gap_by_both", ToJson(judged.by_both)},
                    {"may_lose", judged.may_lose}});
  }
  return json;
}

Json ToJson(const Entry& entry) {
  Json json = {{"model", entry.model.Id()}, {"steps", entry.steps}};
  if (entry.step_seconds > 0) json["step_seconds"] = entry.step_seconds;
  json["rate"] = entry.rate > 0 ? Json(entry.rate) : Json(nullptr);
  json["rates"] = Json::array();
  for (const TriedRate& tried : entry.tried) {
    json["rates"].push_back({{"rate", tried.rate}, {"steps", tried.steps}, {"validation_loss", tried.loss}});
  }
  json["stopped"] = entry.stopped, json["reached"] = entry.reached, json["best_steps"] = entry.best_steps;
  json["curve"] = Json::array();
  for (const CurvePoint& point : entry.curve) {
    json["curve"].push_back({{"steps", point.steps}, {"training_loss", point.training}, {"validation_loss", point.validation}});
  }
  json["gain_of_doubling"] = entry.Gain();
  json["foretold"] = entry.FromHalf();
  return json;
}

constexpr double kOneRun = 0.05;  // share of the loss that another seed may make, where there is one run

// Twice the deviation of the mean difference between two runs by the blocks.
double ReachOfBlocks(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& weights) {
  double sum = 0, weight = 0, squares = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * (a[i] - b[i]), weight += weights[i];
  for (std::size_t i = 0; i < weights.size(); ++i) squares += std::pow(weights[i] / weight * (a[i] - b[i] - sum / weight), 2);
  const double blocks = static_cast<double>(weights.size());
  return blocks < 2 ? INFINITY : 2 * std::sqrt(squares * blocks / (blocks - 1));
}

}  // namespace

std::vector<double> MeasurePace(const std::string& what, const Contest& contest, bool quiet, const ResultStore* store) {
  std::vector<Job> jobs;
  jobs.reserve(2 * contest.models.size());
  for (const int time : {1, 2}) {
    for (const SizedContender& model : contest.models) jobs.push_back(PilotJob(contest, model, time));
  }
  const std::vector<Outcome> outcomes = DoJobs(what + ": speed", jobs, store, /*threads=*/1, quiet);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < contest.models.size(); ++i)
    seconds.push_back(std::min(outcomes[i].values.front(), outcomes[contest.models.size() + i].values.front()));
  return seconds;
}

std::filesystem::path WeightsIn(const ResultStore& store, const Contest& contest, const Contender& model, uint64_t seed) {
  return store.folder() / fmt::format("{}-{}-seed-{}.safetensors", contest.id, model.Id(), seed);
}

double Entry::Gain() const {
  const std::optional<Foretold> twice = curve.empty() ? std::nullopt : Foretell(curve, 2 * curve.back().steps);
  return twice ? twice->gain : NAN;
}

double Entry::FromHalf() const {
  const std::optional<Foretold> end = curve.empty() ? std::nullopt : Foretell(FirstPart(curve, 2), curve.back().steps);
  return end ? end->loss : NAN;
}

double MarginOf(double tolerance, double loss, double simple_loss) {
  constexpr double kLeastLoss = 0.1;  // of the simple answer's
  return tolerance * std::max(std::abs(loss), kLeastLoss * simple_loss);
}

double ContestResult::Margin() const { return MarginOf(tolerance, verdict.front().loss, simple_loss); }

Recommendation Recommend(const ContestResult& result) {
  const double limit = result.Margin();
  std::vector<Judged> trained = result.verdict;
  std::erase_if(trained,
                [](const Judged& one) { return one.standing == Standing::kStopped || one.standing == Standing::kDiverged; });
  const bool decided = std::ranges::min(trained, {}, &Judged::may_lose).may_lose <= limit;
  // The leader, as long as the question is open: however much worse it may be than another, it seems to be the best.
  const Judged* taken = &trained.front();
  const auto seconds = [&](const Judged& one) { return result.entries[one.contender].step_seconds; };
  for (const Judged& one : trained) {
    const bool good = decided && one.may_lose <= limit;
    if (good && (taken->may_lose > limit || seconds(one) < seconds(*taken))) taken = &one;
  }
  Recommendation recommendation{taken->contender, taken->may_lose, decided, {}};
  for (const Judged& one : trained) {
    if (decided && &one != taken && one.may_lose <= limit) recommendation.as_good.push_back(one.contender);
  }
  return recommendation;
}

Compared CompareWithMethod(const ContestResult& result, const std::vector<double>& blocks) {
  std::vector<Score> scores;
  scores.reserve(result.entries.size() + 1);
  for (const Entry& entry : result.entries)
    scores.push_back({entry.stopped ? std::vector<std::vector<double>>() : result.at_time.BlockLosses(entry.model)});
  scores.push_back({{blocks}, /*fixed=*/true});
  return CompareWith(result.entries.size(), Recommend(result).contender, scores, result.weights);
}

std::vector<Judged> JudgeSome(const ContestResult& result,
                              const std::function<std::vector<std::vector<double>>(const Entry& entry)>& losses) {
  std::vector<Score> scores;
  scores.reserve(result.entries.size());
  for (const Entry& entry : result.entries) scores.push_back({losses(entry)});
  if (std::ranges::all_of(scores, [](const Score& score) { return score.losses.empty(); })) return {};
  std::vector<Judged> judged = Judge(scores, result.weights);
  std::erase_if(judged, [](const Judged& one) { return one.standing == Standing::kDiverged; });
  return judged;
}

Json ToJson(const ContestResult& result) {
  const Recommendation taken = Recommend(result);
  Json as_good = Json::array();
  for (const std::size_t i : taken.as_good) as_good.push_back(result.entries[i].model.Id());
  Json json = {{"rates", result.rates},
               {"take",
                {{"model", result.entries[taken.contender].model.Id()},
                 {"may_lose", taken.may_lose},
                 {"tolerance", result.tolerance},
                 {"margin", result.Margin()},
                 {"decided", taken.decided},
                 {"as_good", std::move(as_good)}}},
               {"contenders", Json::array()},
               {"verdict", ToJson(result.verdict, result.entries)}};
  for (const Entry& entry : result.entries) json["contenders"].push_back(ToJson(entry));
  return json;
}

double MayEndAhead(const Prospect& one, const Prospect& other, const std::vector<double>& weights) {
  const double chance = std::hypot(ReachOfBlocks(one.blocks, other.blocks, weights), kOneRun * std::abs(other.end.loss));
  return other.end.loss - one.end.loss + std::hypot(chance, one.end.error, other.end.error);
}

std::vector<std::size_t> Outlook::Near() const {
  std::vector<std::size_t> near;
  for (const Expected& one : expected) {
    if (!(one.loss - expected.front().loss > missed)) near.push_back(one.contender);
  }
  return near;
}

Outlook OutlookOf(const ContestResult& result, double times) {
  Outlook outlook{.times = times, .missed = NAN};
  for (std::size_t i = 0; i < result.entries.size(); ++i) {
    const Entry& entry = result.entries[i];
    if (entry.stopped || entry.curve.empty()) continue;
    const CurvePoint& last = entry.curve.back();
    const auto longer = static_cast<int64_t>(std::llround(times * static_cast<double>(last.steps)));
    const std::optional<Foretold> then = Foretell(entry.curve, longer);
    if (!then) continue;
    outlook.expected.push_back({i, then->loss, then->gain});
    const std::optional<Foretold> end = Foretell(FirstPart(entry.curve, times), last.steps);
    if (end) outlook.missed = std::fmax(outlook.missed, std::abs(end->loss - last.validation));
  }
  std::ranges::stable_sort(outlook.expected, {}, &Outlook::Expected::loss);
  return outlook;
}

std::optional<Overtaking> MayOvertake(const ContestResult& result, const Compared& with_method) {
  if (!with_method.apart() || with_method.ahead) return std::nullopt;
  const double yardstick = with_method.loss - with_method.behind.gap;
  std::optional<Overtaking> first;
  double least = INFINITY;
  for (const Judged& judged : result.verdict) {
    const Entry& entry = result.entries[judged.contender];
    if (entry.curve.empty()) continue;
    const auto foretell = [&](double times) {
      return Foretell(entry.curve, std::llround(times * static_cast<double>(entry.steps)));
    };
    const std::optional<Foretold> furthest = foretell(kFurthest);
    if (!furthest || furthest->gain <= 0) continue;
    // The loss on the test part falls as that on the validation part does.
    const double share = judged.loss / (furthest->loss + furthest->gain), then = share * furthest->loss;
    const double lowest = std::max(then - share * furthest->error, kLawErrs * then);
    if (!(lowest < yardstick) || then >= least) continue;
    least = then;
    double times = 2;
    while (times < kFurthest && share * foretell(times)->loss >= yardstick) times *= 2;
    first = {judged.contender, times, share * foretell(times)->loss};
  }
  return first;
}

nlohmann::ordered_json ToJson(const Outlook& outlook, const ContestResult& result) {
  nlohmann::ordered_json json = {{"times", outlook.times}, {"missed", outlook.missed}};
  json["expected"] = nlohmann::ordered_json::array();
  for (const Outlook::Expected& one : outlook.expected)
    json["expected"].push_back({{"model", result.entries[one.contender].model.Id()}, {"validation_loss", one.loss}});
  return json;
}

}  // namespace heed::lab
