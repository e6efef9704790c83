#include "lab/runs/contest.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

bool MayBeTheBest(const Judged& judged) { return judged.standing == Standing::kLeads || judged.standing == Standing::kTied; }

Json ToJson(const std::vector<Judged>& verdict, const std::vector<Entry>& entries) {
  Json json = Json::array();
  for (const Judged& judged : verdict) {
    json.push_back({{"model", entries[judged.contender].model.Id()},
                    {"standing", ToString(judged.standing)},
                    {"loss", NumberOrNull(judged.loss)},
                    {"gap", NumberOrNull(judged.gap)},
                    {"gap_by_seeds", ToJson(judged.by_seeds)},
                    {"gap_by_blocks", ToJson(judged.by_blocks)},
                    {"gap_by_both", ToJson(judged.by_both)},
                    {"may_lose", NumberOrNull(judged.may_lose)}});
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
  json["stopped"] = entry.stopped, json["reached"] = entry.reached, json["best_steps"] = entry.best_steps;
  json["curve"] = Json::array();
  for (const CurvePoint& point : entry.curve) {
    json["curve"].push_back({{"steps", point.steps},
                             {"training_loss", NumberOrNull(point.training)},
                             {"validation_loss", NumberOrNull(point.validation)}});
  }
  json["gain_of_doubling"] = NumberOrNull(entry.Gain());
  json["foretold"] = NumberOrNull(entry.FromHalf());
  return json;
}

}  // namespace

double Entry::Gain() const {
  const std::optional<Foretold> twice = curve.empty() ? std::nullopt : Foretell(curve, 2 * curve.back().steps);
  return twice ? twice->gain : NAN;
}

double Entry::FromHalf() const {
  const std::optional<Foretold> end = curve.empty() ? std::nullopt : Foretell(FirstPart(curve, 2), curve.back().steps);
  return end ? end->loss : NAN;
}

std::vector<const Entry*> ContestResult::InTheRunning() const {
  std::vector<const Entry*> running;
  for (const Judged& judged : verdict) {
    if (MayBeTheBest(judged)) running.push_back(&entries[judged.contender]);
  }
  return running;
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
                 {"may_lose", NumberOrNull(taken.may_lose)},
                 {"tolerance", result.tolerance},
                 {"margin", result.Margin()},
                 {"decided", taken.decided},
                 {"as_good", std::move(as_good)}}},
               {"contenders", Json::array()},
               {"verdict", ToJson(result.verdict, result.entries)}};
  for (const Entry& entry : result.entries) json["contenders"].push_back(ToJson(entry));
  return json;
}

}  // namespace heed::lab
