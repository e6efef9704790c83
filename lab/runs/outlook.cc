#include "lab/runs/outlook.h"

#include <algorithm>
#include <cmath>
#include <optional>

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

nlohmann::ordered_json ToJson(const Outlook& outlook, const ContestResult& result) {
  nlohmann::ordered_json json = {{"times", outlook.times}, {"missed", NumberOrNull(outlook.missed)}};
  json["expected"] = nlohmann::ordered_json::array();
  for (const Outlook::Expected& one : outlook.expected)
    json["expected"].push_back({{"model", result.entries[one.contender].model.Id()}, {"validation_loss", one.loss}});
  return json;
}

}  // namespace heed::lab
