#include "lab/positions/table.h"

#include <cstddef>

#include "heed/error.h"
#include "heed/positions.h"

namespace heed::lab {
namespace {

void Require(bool condition, const std::string& message) {
  if (!condition) throw InvalidArgument(message);
}

}  // namespace

void CheckPositionsOptions(const PositionsOptions& options) {
  constexpr int64_t kMostValues = int64_t{1} << 24;  // of a table: its CSV file has some 300 MB then
  const auto [first, last] = std::pair(options.first_column, options.last_column);
  const std::string got = ", got " + std::to_string(options.steps) + " x " + std::to_string(options.width);
  Require(options.scheme == "sinusoidal" || options.scheme == "alibi",
          "scheme: expected sinusoidal or alibi, got '" + options.scheme + "'");
  Require(options.steps >= 1, "steps: expected at least 1, got " + std::to_string(options.steps));
  Require(options.width >= 1, "width: expected at least 1, got " + std::to_string(options.width));
  Require(options.steps <= kMostValues / options.width,
          "steps: expected steps x width of at most " + std::to_string(kMostValues) + got);
  Require(options.scheme != "alibi" || options.steps <= kMostValues / options.steps,
          "steps: expected at most 4096 for the bias matrix of alibi, got " + std::to_string(options.steps));
  Require(0 <= first && first < last && last <= options.width,
          "columns: expected FIRST:LAST with 0 <= FIRST < LAST <= width = " + std::to_string(options.width) + ", got " +
              std::to_string(first) + ":" + std::to_string(last));
}

std::vector<float> EmittedSinusoidal(const PositionsOptions& options) {
  std::vector<float> table(static_cast<std::size_t>(options.steps * options.width));
  SinusoidalTable({}, 0, View<float, 2>::Contiguous(table.data(), {options.steps, options.width}));
  return table;
}

std::vector<float> EmittedAlibi(const PositionsOptions& options) {
  const int64_t offsets = 2 * options.steps - 1;
  std::vector<float> table(static_cast<std::size_t>(options.width * offsets));
  AlibiTable(AlibiSlopes(options.width), options.steps - 1, View<float, 2>::Contiguous(table.data(), {options.width, offsets}));
  return table;
}

}  // namespace heed::lab
