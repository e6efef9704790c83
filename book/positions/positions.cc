#include "book/positions/positions.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <utility>

#include "book/positions/portrait.h"
#include "heed/error.h"
#include "lab/report/printable.h"
#include "lab/runs/measurements.h"

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

constexpr int64_t kMostMeasured = 4096;  // steps: a score for each, of every head

bool Measured(const Portrait& portrait) {
  return portrait.square || (portrait.numbers != nullptr && portrait.numbers != &TableOfScheme);
}

}  // namespace

bool HasPicture(const std::string& scheme) { return FindPortrait(scheme) != nullptr; }

std::string AboutScheme(const std::string& scheme) { return AboutOf(PortraitOf(scheme)); }

int64_t HeadsOf(const PositionsOptions& options) {
  return PortraitOf(options.scheme).unit == WidthUnit::kHeads ? options.width : 2;
}

int64_t HeadWidthOf(const PositionsOptions& options) {
  return PortraitOf(options.scheme).unit == WidthUnit::kHeads ? options.head_width : options.width;
}

int64_t SideOf(const PositionsOptions& options) { return static_cast<int64_t>(std::sqrt(static_cast<double>(options.steps))); }

void FitToModel(PositionsOptions& options, int64_t width, int64_t heads, int64_t context) {
  const Portrait& portrait = PortraitOf(options.scheme);
  options.head_width = width / heads;
  options.steps = Measured(portrait) ? std::min(context, kMostMeasured) : context;
  if (portrait.unit == WidthUnit::kHeads) {
    options.width = heads;
    options.first_column = 0, options.last_column = std::min<int64_t>(4, heads);
    return;
  }
  options.width = portrait.unit == WidthUnit::kHead ? options.head_width : width;
  FitColumns(options);
}

void FitColumns(PositionsOptions& options) {
  if (options.width >= options.last_column) return;
  options.last_column = options.width;
  options.first_column = std::max<int64_t>(0, options.width - 4);
}

namespace {

constexpr int64_t kMostValues = int64_t{1} << 24;  // of a table: its CSV file has some 300 MB then

void CheckTableSize(const PositionsOptions& options) {
  const std::string got = ", got " + std::to_string(options.steps) + " x " + std::to_string(options.width);
  Require(options.steps >= 1, "steps: expected at least 1, got " + std::to_string(options.steps));
  Require(options.width >= 1, "width: expected at least 1, got " + std::to_string(options.width));
  Require(options.steps <= kMostValues / options.width,
          "steps: expected steps x width of at most " + std::to_string(kMostValues) + got);
  Require(options.scheme != "alibi" || options.steps <= kMostValues / options.steps,
          "steps: expected at most 4096 for the bias matrix of alibi, got " + std::to_string(options.steps));
}

// Of schemes whose scores are measured pair by pair, and whose tables are products of matrices.
void CheckMeasured(const PositionsOptions& options, const Portrait& portrait) {
  constexpr int64_t kMostColumns = 4096, kMostNumbers = int64_t{1} << 28;  // of all queries: some twenty seconds
  if (Measured(portrait)) {
    Require(options.width <= kMostColumns, "width: expected at most " + std::to_string(kMostColumns) + " for " +
                                               options.scheme + ", got " + std::to_string(options.width));
    const int64_t numbers = portrait.unit == WidthUnit::kHeads ? options.width * options.head_width
                                                               : std::max<int64_t>(1, options.width / 2) * options.width;
    const int64_t most_steps = std::min(kMostMeasured, kMostNumbers / numbers);
    Require(options.steps <= most_steps, "steps: expected at most " + std::to_string(most_steps) + " for " + options.scheme +
                                             " of width " + std::to_string(options.width) + ", got " +
                                             std::to_string(options.steps));
  }
  const int64_t most_heads = kMostColumns / options.head_width;
  Require(portrait.numbers != &TermByOffset || options.width <= most_heads,
          "width: expected at most " + std::to_string(most_heads) + " heads for " + options.scheme + ", got " +
              std::to_string(options.width));
  const int64_t columns = portrait.numbers == &TermByOffset ? options.width * options.head_width : options.width;
  Require(!portrait.clips || (options.max_distance >= 0 && options.max_distance <= kMostValues / columns / 3),
          "max-distance: expected max-distance x width of at most " + std::to_string(kMostValues / 3) + ", got " +
              std::to_string(options.max_distance) + " x " + std::to_string(columns));
}

}  // namespace

void CheckPositionsOptions(const PositionsOptions& options) {
  const Portrait& portrait = PortraitOf(options.scheme);
  const auto [first, last] = std::pair(options.first_column, options.last_column);
  CheckTableSize(options);
  CheckMeasured(options, portrait);
  const std::string multiple = portrait.multiple == 2 ? "an even number" : "a multiple of " + std::to_string(portrait.multiple);
  Require(options.width % portrait.multiple == 0,
          "width: expected " + multiple + " for " + options.scheme + ", got " + std::to_string(options.width));
  Require(0 <= first && first < last && last <= options.width,
          "columns: expected FIRST:LAST with 0 <= FIRST < LAST <= width = " + std::to_string(options.width) + ", got " +
              std::to_string(first) + ":" + std::to_string(last));
}

std::vector<Figure> PositionFigures(const PositionsOptions& options, const std::optional<SchemeTable>& trained) {
  CheckPositionsOptions(options);
  const Portrait& portrait = PortraitOf(options.scheme);
  const bool has_table = portrait.numbers != nullptr || portrait.rows != nullptr;
  const SchemeTable table = trained ? *trained : has_table ? StartingTable(options) : SchemeTable{};
  std::vector<Figure> figures = portrait.draw(options, table, WordsOf(portrait));
  for (Figure& figure : figures) {
    if (trained || portrait.random) figure.seeds = SeedsOf(options.seed, 1);
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
