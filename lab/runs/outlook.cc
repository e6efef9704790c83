#include "lab/runs/outlook.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "lab/runs/prospect.h"
#include "lab/training/curve.h"

namespace heed::lab {

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
  nlohmann::ordered_json json = {{"times", outlook.times}, {"missed", NumberOrNull(outlook.missed)}};
  json["expected"] = nlohmann::ordered_json::array();
  for (const Outlook::Expected& one : outlook.expected)
    json["expected"].push_back({{"model", result.entries[one.contender].model.Id()}, {"validation_loss", one.loss}});
  return json;
}

}  // namespace heed::lab
