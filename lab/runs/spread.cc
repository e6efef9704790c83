#include "lab/runs/spread.h"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

namespace heed::lab {

Spread SpreadOf(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()), *low, *high};
}

nlohmann::ordered_json ToJson(const Spread& spread) {
  return {{"mean", spread.mean}, {"low", spread.low}, {"high", spread.high}};
}

std::string SeedsOf(uint64_t first, int64_t count) {
  if (count == 1) return fmt::format("seed {}", first);
  return fmt::format("seeds {} to {}", first, first + static_cast<uint64_t>(count) - 1);
}

}  // namespace heed::lab
