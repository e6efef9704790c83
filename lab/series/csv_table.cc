#include "lab/series/csv_table.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"
#include "lab/series/csv_form.h"

namespace heed::lab {
namespace {

bool AreNumbers(const std::vector<std::string>& cells) {
  return std::ranges::all_of(cells, [](const std::string& cell) { return NumberOf(cell, false) || NumberOf(cell, true); });
}

// What may be wrong with a file whose first row has no names.
std::string HeaderHint(const std::vector<std::string>& columns) {
  return AreNumbers(columns) ? "; the first row holds numbers alone: give --no-header if they are values" : "";
}

void CheckColumns(const CsvRecords& records, const std::vector<std::string>& columns) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const bool index = i == 0 && columns.size() > 1;
    if (columns[i].empty() && !index)
      records.Fail(1, "column " + std::to_string(i + 1) + " has no name; only an index, the first column, may have none");
    if (!seen.insert(columns[i]).second)
      records.Fail(1, "column '" + ShownName(columns[i]) + "' is there twice; rename one" + HeaderHint(columns));
  }
}

}  // namespace

std::string Listed(const std::vector<std::string>& names, std::size_t most) {
  constexpr std::size_t kMostBytes = 1000;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == most || text.size() > kMostBytes) return text + " and " + std::to_string(names.size() - i) + " more";
    text += (i == 0 ? "" : ", ") + ShownName(names[i]);
  }
  return text;
}

CsvBlocks::CsvBlocks(std::string name, More more, CsvOptions options)
    : name_(std::move(name)), more_(std::move(more)), options_(std::move(options)) {}

void CsvBlocks::ReadMore() {
  // Twice as much where nothing was whole, so that a long record is not looked at over and over.
  const std::size_t wanted = 2 * bytes_.size();
  do {
    last_ = !more_(bytes_);
    if (std::ssize(bytes_) > MostDataBytes())
      throw FileError(fmt::format("{}: from row {} on more than {} bytes are needed at once; is a quote not closed?", name_,
                                  line_, MostDataBytes()));
  } while (!last_ && bytes_.size() < wanted);
  RequireUtf8(name_, bytes_, offset_, last_);
  if (bytes_.find('\0') != std::string::npos) throw FileError(name_ + ": the file holds a zero byte; it is no text");
}

// Finds the form and the names of the columns, once a row is whole.
void CsvBlocks::Begin(std::string_view text) {
  const CsvForm form = FormOfCsv(text, options_, last_);
  CsvRecords records(name_, text, form.separator, line_, last_);
  std::optional<std::vector<std::string>> cells = records.Next();
  if (!cells) return;
  if (form.header) {
    CheckColumns(records, *cells);
  } else {
    for (std::size_t i = 0; i < cells->size(); ++i) (*cells)[i] = "c" + std::to_string(i + 1);
  }
  form_ = form, columns_ = std::move(*cells);
  if (!form.header) return;
  line_ = records.line(), offset_ += static_cast<int64_t>(bytes_.size() - records.left());
  bytes_.erase(0, bytes_.size() - records.left());
}

// Reads what is whole of the bytes into the table and drops it.
void CsvBlocks::Take(CsvTable& table) {
  if (!form_) {
    const std::string_view text = offset_ == 0 ? WithoutByteOrderMark(bytes_) : std::string_view(bytes_);
    if (last_ && text.empty()) throw FileError(name_ + ": the file is empty");
    Begin(text);
    if (!form_) return;
  }
  const std::string_view text = offset_ == 0 ? WithoutByteOrderMark(bytes_) : std::string_view(bytes_);
  CsvRecords records(name_, text, form_->separator, line_, last_);
  std::size_t left = text.size();
  while (!records.AtEnd()) {
    if (records.SkipEmptyLines()) {
      if (!records.AtEnd()) records.Fail(line_, "the line is empty; remove it");
      if (last_) left = 0;
      break;
    }
    std::optional<std::vector<std::string>> cells = records.Next();
    if (!cells) break;
    if (cells->size() != columns_.size()) {
      records.Fail(line_, fmt::format("{} {} where {} has {}; put a cell that holds the separator in quotes, or tell of "
                                      "another one by --separator",
                                      cells->size(), cells->size() == 1 ? "cell" : "cells",
                                      form_->header ? "the header" : "row 1", columns_.size()));
    }
    std::ranges::move(*cells, std::back_inserter(table.cells_));
    table.lines_.push_back(line_);
    left = records.left(), line_ = records.line();
  }
  offset_ += static_cast<int64_t>(bytes_.size() - left);
  bytes_.erase(0, bytes_.size() - left);
}

std::optional<CsvTable> CsvBlocks::Next() {
  CsvTable table;
  table.name_ = name_;
  while (table.lines_.empty() && !last_) ReadMore(), Take(table);
  any_ = any_ || !table.lines_.empty();
  if (!any_) throw FileError(name_ + ": no rows follow the header");
  if (table.lines_.empty()) return std::nullopt;
  table.columns_ = columns_, table.form_ = *form_;
  return table;
}

CsvTable::CsvTable(const std::string& name, const std::string& bytes, const CsvOptions& options) {
  CsvBlocks whole(
      name,
      [&](std::string& all) {
        all = bytes;
        return false;
      },
      options);
  *this = *whole.Next();
}

int64_t CsvTable::Column(const char* option, const std::string& name) const {
  const auto found = std::ranges::find(columns_, Trimmed(name));
  if (found != columns_.end()) return found - columns_.begin();
  throw InvalidArgument(std::string(option) + ": " + name_ + " has no column '" + ShownName(name) + "'; it has " +
                        Listed(columns_) + HeaderHint(columns_));
}

const std::string& CsvTable::Text(int64_t row, int64_t column) const {
  if (Cell(row, column).empty()) throw FileError(Place(row, column) + "the value is missing; fill it in, or remove the row");
  return Cell(row, column);
}

double CsvTable::Number(int64_t row, int64_t column) const {
  if (const std::optional<double> value = TryNumber(row, column)) return *value;
  if (const std::optional<double> flag = FlagOf(Cell(row, column))) return *flag;
  const std::string wrong = Place(row, column) + "'" + ShownName(Text(row, column)) + "' ";
  if (Missing(row, column)) throw FileError(wrong + "stands for a missing value; fill it in, or remove the row");
  throw FileError(wrong + "is not a finite number; write it as " + (form_.decimal_comma ? "1234,5" : "1234.5"));
}

double CsvTable::Date(int64_t row, int64_t column, DateOrder order) const {
  const std::string& text = Text(row, column);
  if (const std::optional<double> seconds = SecondsOfDate(text, order)) return *seconds;
  throw FileError(
      Place(row, column) + "'" + ShownName(text) +
      "' is no time; expected numbers, or dates as 2024-03-01T12:30:05Z, 2024/03/01, 1949-01 or 1991 Jul in all rows");
}

std::string CsvTable::Place(int64_t row, int64_t column) const {
  return name_ + ": row " + std::to_string(lines_[row]) + ", column '" + ShownName(columns_[column]) + "': ";
}

}  // namespace heed::lab
