#include "lab/runs/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

namespace heed::lab {

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> MeanOf(const std::vector<std::vector<double>>& rows) {
  std::vector<double> mean(rows.front().size(), 0.0);
  for (const std::vector<double>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) mean[i] += row[i] / static_cast<double>(rows.size());
  }
  return mean;
}

Spread SpreadOf(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {MeanOf(values), *low, *high};
}

nlohmann::ordered_json ToJson(const Spread& spread) {
  return {{"mean", spread.mean}, {"low", spread.low}, {"high", spread.high}};
}

nlohmann::ordered_json NumberOrNull(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

std::string SeedsOf(uint64_t first, int64_t count) {
  if (count == 1) return fmt::format("seed {}", first);
  return fmt::format("seeds {} to {}", first, first + static_cast<uint64_t>(count) - 1);
}

}  // namespace heed::lab
