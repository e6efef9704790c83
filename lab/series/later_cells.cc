#include "lab/series/later_cells.h"

#include <algorithm>
#include <ranges>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/shown_name.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostTexts = 6;  // that are named of a column

}  // namespace

void Validate(const LaterCsv& csv) {
  Validate(static_cast<const CsvOptions&>(csv));
  if (csv.new_categories.empty() || csv.new_categories == "refuse" || csv.new_categories == "as-missing") return;
  throw InvalidArgument("new_categories: '" + ShownName(csv.new_categories) + "' is unknown; choose refuse or as-missing");
}

void LaterCells::Add(Cells& cells, int64_t line) {
  if (cells.count == 0 || line < cells.first) cells.first = line;
  ++cells.count;
}

void LaterCells::AddGap(const std::string& column, int64_t line, bool of_text) {
  Cells& cells = gaps_[column];
  cells.of_text = of_text;
  Add(cells, line);
}

void LaterCells::AddNew(const std::string& column, int64_t line, const std::string& text) {
  Cells& cells = new_[column];
  const std::string shown = ShownName(text);
  if (std::ssize(cells.texts) <= kMostTexts && std::ranges::find(cells.texts, shown) == cells.texts.end())
    cells.texts.push_back(shown);
  Add(cells, line);
}

std::vector<std::string> LaterCells::Notes(int64_t steps) const {
  const auto place = [&](int64_t line) {
    return steps == 0 ? fmt::format("row {}", line) : fmt::format("sequence {}, step {}", line / steps, line % steps);
  };
  std::vector<std::string> notes;
  for (const auto& [name, cells] : gaps_)
    notes.push_back(
        fmt::format("'{}' lacks {} of {} values, the first in {}: {}.", ShownName(name), cells.count, rows_, place(cells.first),
                    cells.of_text ? "each counts as none of the categories" : "the last value before fills each gap"));
  for (const auto& [name, cells] : new_)
    notes.push_back(fmt::format(
        "'{}' holds texts that the model has not met in {} of {} rows, the first in row {}: {}{}. Each counts as a missing "
        "value, which is none of the categories.",
        ShownName(name), cells.count, rows_, cells.first, fmt::join(cells.texts | std::views::take(kMostTexts), ", "),
        std::ssize(cells.texts) > kMostTexts ? ", .." : ""));
  return notes;
}

}  // namespace heed::lab
