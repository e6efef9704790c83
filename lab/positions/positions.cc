#include "lab/positions/positions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>

#include "heed/error.h"
#include "heed/nn/positions.h"
#include "lab/positions/figures.h"
#include "lab/positions/scheme_table.h"
#include "lab/report/shell_word.h"
#include "lab/runs/spread.h"

namespace heed::lab {
namespace {

void Require(bool condition, const std::string& message) {
  if (!condition) throw InvalidArgument(message);
}

}  // namespace

std::string CommandOf(const PositionsOptions& options, const std::filesystem::path& folder) {
  const PositionsOptions defaults;
  std::string command = "heed positions";
  if (!options.run.empty()) {
    command += " --run " + ShellWord(options.run);
    if (options.layer != defaults.layer) command += " --layer " + std::to_string(options.layer);
  } else {
    command += " --steps " + std::to_string(options.steps) + " --width " + std::to_string(options.width);
  }
  command += " --columns " + std::to_string(options.first_column) + ":" + std::to_string(options.last_column);
  if (options.column_label != defaults.column_label) command += " --label " + ShellWord(options.column_label);
  if (options.run.empty()) {
    if (options.scheme != defaults.scheme) command += " --scheme " + options.scheme;
    if (options.max_distance != defaults.max_distance) command += " --max-distance " + std::to_string(options.max_distance);
    if (options.seed != defaults.seed) command += " --seed " + std::to_string(options.seed);
  }
  return command + " --out " + ShellWord(folder.string());
}

namespace {

// Of a scheme that is drawn from its table alone.
std::vector<Figure> OfBias(const PositionsOptions& options, const SchemeTable& table) {
  std::vector<Figure> figures = BiasFigures(options, table);
  if (table.scheme == "t5" && !table.trained) figures.push_back(BucketFigure(options));
  return figures;
}

}  // namespace

bool HasPicture(const std::string& scheme) {
  using enum nn::PositionScheme;
  constexpr std::array kDrawn = {kSinusoidal, kLearned, kRotary, kAlibi, kRelativeBias, kT5, kShaw};
  return std::ranges::find(kDrawn, nn::ParsePositionScheme(scheme)) != kDrawn.end();
}

void CheckPositionsOptions(const PositionsOptions& options) {
  Require(options.scheme != "none", "scheme: none has no numbers to draw");
  Require(HasPicture(options.scheme), "scheme: there is no picture of '" + options.scheme + "'");
  constexpr int64_t kMostValues = int64_t{1} << 24;  // of a table: its CSV file has some 300 MB then
  const auto [first, last] = std::pair(options.first_column, options.last_column);
  const std::string got = ", got " + std::to_string(options.steps) + " x " + std::to_string(options.width);
  Require(options.steps >= 1, "steps: expected at least 1, got " + std::to_string(options.steps));
  Require(options.width >= 1, "width: expected at least 1, got " + std::to_string(options.width));
  Require(options.steps <= kMostValues / options.width,
          "steps: expected steps x width of at most " + std::to_string(kMostValues) + got);
  Require(options.scheme != "alibi" || options.steps <= kMostValues / options.steps,
          "steps: expected at most 4096 for the bias matrix of alibi, got " + std::to_string(options.steps));
  const bool clips = options.scheme == "relative" || options.scheme == "t5" || options.scheme == "shaw";
  Require(!clips || (options.max_distance >= 0 && options.max_distance <= kMostValues / options.width / 3),
          "max-distance: expected max-distance x width of at most " + std::to_string(kMostValues / 3) + ", got " +
              std::to_string(options.max_distance) + " x " + std::to_string(options.width));
  Require(options.scheme != "rotary" || options.width % 2 == 0,
          "width: expected an even number for rotary, got " + std::to_string(options.width));
  Require(0 <= first && first < last && last <= options.width,
          "columns: expected FIRST:LAST with 0 <= FIRST < LAST <= width = " + std::to_string(options.width) + ", got " +
              std::to_string(first) + ":" + std::to_string(last));
}

std::vector<Figure> PositionFigures(const PositionsOptions& options, const std::optional<SchemeTable>& trained) {
  CheckPositionsOptions(options);
  const auto table = [&] { return trained ? *trained : StartingTable(options); };
  std::vector<Figure> figures;
  switch (nn::ParsePositionScheme(options.scheme)) {
    case nn::PositionScheme::kSinusoidal:
      figures = SinusoidalFigures(options);
      break;
    case nn::PositionScheme::kLearned:
      figures = LearnedFigures(table());
      break;
    case nn::PositionScheme::kRotary:
      figures = RotaryFigures(options);
      break;
    case nn::PositionScheme::kAlibi:
      figures = AlibiFigures(options);
      break;
    case nn::PositionScheme::kRelativeBias:
    case nn::PositionScheme::kT5:
      figures = OfBias(options, table());
      break;
    case nn::PositionScheme::kShaw:
      figures = VectorFigures(table());
      break;
    default:
      break;  // refused above
  }
  // Trained numbers come from the seed of a run, these two start at random.
  const bool random = trained.has_value() || options.scheme == "learned" || options.scheme == "shaw";
  for (Figure& figure : figures) {
    if (random) figure.seeds = SeedsOf(options.seed, 1);
  }
  return figures;
}

std::vector<std::string> BinaryTable(int64_t count) {
  if (count < 1) throw InvalidArgument("count: expected at least 1, got " + std::to_string(count));
  const int digits = std::max<int>(std::bit_width(static_cast<uint64_t>(count - 1)), 1);
  std::vector<std::string> lines;
  for (int64_t number = 0; number < count; ++number) {
    std::string line = std::to_string(number) + " in binary is ";
    for (int digit = digits - 1; digit >= 0; --digit) line += (number >> digit & 1) != 0 ? '1' : '0';
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace heed::lab
