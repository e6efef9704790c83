#include "lab/series/columns.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "heed/shown_name.h"
#include "lab/series/csv_table.h"

namespace heed::lab {
namespace {

bool IsDateInAnyOrder(const std::string& cell) { return SecondsOfDate(cell, DateOrder::kDay) || OrderIn(cell); }

void Widen(SeriesColumn& column, bool first, double value) {
  column.low = first ? value : std::min(column.low, value);
  column.high = first ? value : std::max(column.high, value);
}

// 1958-03-29 and 1958-03 of a day and a month that are written as a number; else empty.
std::string AsDashes(const std::string& cell) {
  if ((cell.size() != 8 && cell.size() != 6) || cell.find_first_not_of("0123456789") != std::string::npos) return {};
  const std::string dashes = cell.substr(0, 4) + "-" + cell.substr(4, 2) + (cell.size() == 8 ? "-" + cell.substr(6) : "");
  const bool dated = (cell.front() == '1' || cell.front() == '2') && SecondsOfDate(dashes);
  return dated ? dashes : std::string();
}

// Whether all its numbers may be years as 1958 or months as 195803, and some differ.
bool MayBeYears(const CsvTable& table, int64_t column) {
  constexpr std::string_view kFirst = "1800", kLast = "2100";
  std::set<std::string_view> seen;
  for (int64_t row = 0; row < table.rows(); ++row) {
    if (table.Missing(row, column)) continue;
    const std::string& cell = table.Cell(row, column);
    const std::string_view year = std::string_view(cell).substr(0, 4);
    const bool digits = cell.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || year < kFirst || year > kLast || (cell.size() != 4 && (cell.size() != 6 || AsDashes(cell).empty())))
      return false;
    seen.insert(cell);
  }
  return seen.size() > 1;
}

std::string NoteOnYears(const SeriesColumn& column, bool has_time) {
  const std::string name = ShownName(column.name);
  const std::string range = fmt::format("'{}' holds numbers from {:.0f} to {:.0f}", name, column.low, column.high);
  if (column.role == "time")
    return range + ": times, but no dates; write years as 1949-01-01 for methods that know a calendar.";
  return range + ", which may be years or months; to a model they are numbers" +
         (has_time ? "." : "; give --time " + name + " where rows are ordered by them.");
}

constexpr std::size_t kMostClasses = 1000;

}  // namespace

ColumnLook LookAt(const CsvTable& table, int64_t column, bool as_names) {
  ColumnLook look{{.name = table.columns()[column], .role = {}, .holds = {}}};
  SeriesColumn& seen = look.column;
  std::set<std::string> texts;
  int64_t numbers = 0, flags = 0, first_text = -1;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::string& cell = table.Cell(row, column);
    if (IsMissing(cell)) {
      ++seen.missing;
    } else if (const std::optional<double> number = as_names ? std::nullopt : table.TryNumber(row, column)) {
      Widen(seen, numbers + flags == 0, *number);
      ++numbers;
    } else if (const std::optional<double> flag = as_names ? std::nullopt : FlagOf(cell)) {
      Widen(seen, numbers + flags == 0, *flag);
      ++flags;
      texts.insert(cell);
    } else {
      if (first_text < 0) first_text = row;
      texts.insert(cell);
    }
  }
  if (first_text >= 0) {
    seen.holds = "texts";
    if (numbers > 0) look.mixed = first_text;
  } else {
    seen.holds = numbers > 0 ? "numbers" : flags > 0 ? "flags" : "nothing";
  }
  if (seen.holds == "texts" || seen.holds == "flags") seen.texts.assign(texts.begin(), texts.end());
  if (!as_names && numbers + flags == 0 && first_text >= 0 && std::ranges::all_of(texts, IsDateInAnyOrder))
    seen.holds = "dates";
  return look;
}

SeriesColumn FeatureOf(const CsvTable& table, int64_t column, bool as_names) {
  const std::string& name = table.columns()[column];
  ColumnLook look = LookAt(table, column, as_names);
  look.column.role = "feature";
  const auto refuse = [&](int64_t row, const std::string& why) {
    throw FileError(table.Place(row, column) + "'" + ShownName(table.Cell(row, column)) + "' " + why);
  };
  if (look.mixed >= 0)
    refuse(look.mixed, "stands among numbers; leave the cell empty where the value is missing, or give --categories " +
                           ShownName(name) + " where the cells are names");
  if (look.column.holds == "dates") {
    int64_t row = 0;
    while (table.Missing(row, column)) ++row;
    refuse(row, "is a date, which is no feature; give --time " + ShownName(name) +
                    " where rows are ordered by it, or leave the column out by --features");
  }
  if (look.column.holds == "texts") {
    RequireOneSpelling(table, column);
    if (look.column.texts.size() > kMostCategories)
      throw FileError(
          fmt::format("{}: column '{}' holds {} different texts, more than the {} that are taken for categories; "
                      "leave it out by --features, or let --sequence or --time name it",
                      table.name(), ShownName(name), look.column.texts.size(), kMostCategories));
  }
  if (look.column.holds == "numbers") RequireNoDates(table, column);
  return std::move(look.column);
}

void RequireOneSpelling(const CsvTable& table, int64_t column) {
  std::map<double, int64_t> rows;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::optional<double> value = table.TryNumber(row, column);
    if (!value) continue;
    const int64_t first = rows.emplace(*value, row).first->second;
    if (table.Cell(first, column) == table.Cell(row, column)) continue;
    throw FileError(fmt::format("{}'{}' and '{}' in row {} are one number; spell it alike where it is one name",
                                table.Place(row, column), ShownName(table.Cell(row, column)),
                                ShownName(table.Cell(first, column)), table.Line(first)));
  }
}

void RequireNoDates(const CsvTable& table, int64_t column, bool months) {
  int64_t first = -1;
  for (int64_t row = 0; row < table.rows(); ++row) {
    if (table.Missing(row, column)) continue;
    const std::string& cell = table.Cell(row, column);
    if (AsDashes(cell).empty() || (cell.size() == 6 && !months)) return;
    if (first < 0) first = row;
  }
  if (first < 0) return;
  const std::string& cell = table.Cell(first, column);
  throw FileError(table.Place(first, column) + "'" + cell + "' reads as a date; write it as " + AsDashes(cell) +
                  " in a column for --time, or as " + cell + ".0 where it is a number");
}

DateOrder OrderOfDates(const CsvTable& table, int64_t column, DateOrder told) {
  if (told != DateOrder::kNone) return told;
  int64_t open = -1, day = -1, month = -1;
  for (int64_t row = 0; row < table.rows(); ++row) {
    const std::optional<DateOrder> order = OrderIn(table.Cell(row, column));
    if (!order) continue;
    int64_t& first = *order == DateOrder::kDay ? day : *order == DateOrder::kMonth ? month : open;
    if (first < 0) first = row;
  }
  const auto cell = [&](int64_t row) { return "'" + ShownName(table.Cell(row, column)) + "'"; };
  if (day >= 0 && month >= 0)
    throw FileError(fmt::format("{}{} has its {} first, and {} in row {} its {}; write all alike, as 2000-12-31",
                                table.Place(std::max(day, month), column), cell(std::max(day, month)),
                                day > month ? "day" : "month", cell(std::min(day, month)), table.Line(std::min(day, month)),
                                day > month ? "month" : "day"));
  if (day >= 0) return DateOrder::kDay;
  if (month >= 0) return DateOrder::kMonth;
  if (open < 0) return DateOrder::kNone;
  throw FileError(table.Place(open, column) + cell(open) +
                  " may have its day or its month first, and no row tells which; give --date-order day or --date-order month");
}

std::string NoteOnGaps(const std::string& name, int64_t missing, int64_t of, bool foretold) {
  return fmt::format("'{}' lacks {} of {} values: the last value before fills each gap, and one more feature marks it{}.",
                     ShownName(name), missing, of, foretold ? ". No window is scored by a missing value" : "");
}

std::vector<std::string> NotesOn(const CsvTable& table, const SeriesData& data) {
  std::vector<std::string> notes;
  if (const std::string said = table.form().Said(); !said.empty()) notes.push_back(said);
  if (!data.date_order.empty())
    notes.push_back(fmt::format("Dates as 01/02/2000 are read with the {} first.", data.date_order));
  for (int64_t i = 0; i < std::ssize(data.file_columns); ++i) {
    const SeriesColumn& column = data.file_columns[i];
    const std::string name = column.name.empty() ? "The first column, which has no name," : "'" + ShownName(column.name) + "'";
    const bool target = column.role == "target" && data.TargetFeature() >= 0;
    const bool read = column.role == "feature" || target;
    if ((column.role == "feature" || column.role == "time") && column.holds == "numbers" && MayBeYears(table, i))
      notes.push_back(NoteOnYears(column, /*has_time=*/!data.time.empty()));
    if (column.role == "index") notes.push_back(name + " is taken for an index and is not read.");
    if (column.role == "not read" && column.holds == "nothing") notes.push_back(name + " is empty and is not read.");
    if (!read) continue;
    if (column.holds == "texts") {
      notes.push_back(fmt::format("{} holds texts of {} {}: {}. Models see each as a number, 0 or 1{}.", name,
                                  column.texts.size(), column.texts.size() == 1 ? "kind" : "kinds", Listed(column.texts, 6),
                                  column.missing > 0 ? fmt::format("; of {} empty cells all are 0", column.missing) : ""));
      continue;
    }
    if (column.holds == "flags") notes.push_back(name + " holds yes and no, or true and false: 1 and 0.");
    if (column.missing > 0) notes.push_back(NoteOnGaps(column.name, column.missing, table.rows(), target));
    if (column.low == column.high)
      notes.push_back(fmt::format("{} is {:g} in all rows, which helps no model.", name, column.low));
  }
  return notes;
}

std::vector<std::string> ClassNames(const std::string& file, const std::set<std::string>& names) {
  if (names.size() < 2) throw FileError(file + ": the target has only one class; expected two or more");
  if (names.size() > kMostClasses) {
    throw FileError(file + ": the target has " + std::to_string(names.size()) + " classes, more than " +
                    std::to_string(kMostClasses) + "; is it a number to predict (--goal regression)?");
  }
  std::vector<std::string> sorted(names.begin(), names.end());
  const auto number = [](const std::string& text) { return NumberOf(text, /*decimal_comma=*/false); };
  if (std::all_of(sorted.begin(), sorted.end(), number)) {
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const std::string& a, const std::string& b) { return *number(a) < *number(b); });
  }
  return sorted;
}

std::vector<std::string> NotesOnRareClasses(const SeriesData& data) {
  constexpr std::size_t kMostNamed = 3;
  if (data.classes.empty()) return {};
  std::vector<const SeriesSequence*> only(data.classes.size());
  std::vector<int64_t> counts(data.classes.size());
  for (const SeriesSequence& sequence : data.sequences) {
    for (const double target : sequence.targets) {
      const auto label = static_cast<std::size_t>(target);
      ++counts[label], only[label] = &sequence;
    }
  }
  std::vector<std::string> rare;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 1)
      rare.push_back(fmt::format("'{}' in sequence '{}'", ShownName(data.classes[i]), ShownName(only[i]->id)));
  }
  if (rare.empty()) return {};
  const std::size_t more = rare.size() - std::min(rare.size(), kMostNamed);
  rare.resize(rare.size() - more);
  return {fmt::format("A single {} has the class {}{}. No model can learn from it and be tested on it too; is it mistyped?",
                      data.each_step ? "row" : "sequence", fmt::join(rare, ", "),
                      more == 0 ? "" : fmt::format(", and so have {} more classes", more))};
}

}  // namespace heed::lab
