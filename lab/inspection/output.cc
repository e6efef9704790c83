#include "lab/inspection/output.h"

#include <string>

#include <fmt/core.h>

namespace heed::lab {

nlohmann::ordered_json InspectionJson(const Inspection& inspection) {
  nlohmann::ordered_json heads = nlohmann::ordered_json::array();
  for (const HeadMap& map : inspection.maps) {
    heads.push_back({{"layer", map.layer},
                     {"head", map.head},
                     {"entropy", map.statistics.entropy},
                     {"max_weight", map.statistics.max_weight},
                     {"mean_distance", map.statistics.mean_distance},
                     {"first_token", map.statistics.first_token}});
  }
  return {{"tokens", inspection.geometry.tokens},       {"causal", inspection.geometry.causal},
          {"tokens_per_cell", inspection.geometry.bin}, {"relative_error", inspection.code.relative_error()},
          {"least_weight", inspection.code.least()},    {"heads", heads}};
}

Table HeadTable(const Inspection& inspection) {
  Table table{
      "Means over the queries of each head", {"Layer", "Head", "Entropy", "Largest weight", "Distance", "First token"}, {}};
  for (const HeadMap& map : inspection.maps) {
    const HeadStatistics& means = map.statistics;
    table.rows.push_back({std::to_string(map.layer), std::to_string(map.head), fmt::format("{:.3f}", means.entropy),
                          fmt::format("{:.3f}", means.max_weight), fmt::format("{:.1f}", means.mean_distance),
                          fmt::format("{:.1f} %", 100 * means.first_token)});
  }
  return table;
}

}  // namespace heed::lab
