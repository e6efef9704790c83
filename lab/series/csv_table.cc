#include "lab/series/csv_table.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "heed/safetensors.h"
#include "lab/report/file.h"
#include "lab/series/date.h"

namespace heed::lab {
namespace {

std::string Trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

// Reads a record at a time. `last`: nothing follows the text.
class Reader {
 public:
  Reader(const std::string& name, std::string_view text, int64_t line, bool last)
      : name_(name), text_(text), line_(line), last_(last) {}

  bool AtEnd() const { return text_.empty(); }
  std::size_t left() const { return text_.size(); }
  int64_t line() const { return line_; }

  // Whether the text goes on with empty lines, which are then behind it.
  bool SkipEmptyLines() {
    const std::size_t length = std::min(text_.find_first_not_of("\r\n"), text_.size());
    line_ += std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(length), '\n');
    text_.remove_prefix(length);
    return length > 0;
  }

  // Its cells; nothing where the record may go on behind the text.
  std::optional<std::vector<std::string>> Record() {
    std::vector<std::string> cells;
    const int64_t first = line_;
    for (;;) {
      cells.emplace_back(Trimmed(!text_.empty() && text_.front() == '"' ? Quoted(first) : Plain()));
      if (text_.empty()) return last_ ? std::optional(std::move(cells)) : std::nullopt;
      const char end = text_.front();
      text_.remove_prefix(1);
      if (end == ',') continue;
      if (end == '\r' && text_.empty() && !last_) return std::nullopt;
      if (end == '\r' && !text_.empty() && text_.front() == '\n') text_.remove_prefix(1);
      ++line_;
      return cells;
    }
  }

  [[noreturn]] void Fail(int64_t line, const std::string& message) const {
    throw FileError(name_ + ": row " + std::to_string(line) + ": " + message);
  }

 private:
  std::string Plain() {
    const std::size_t end = std::min(text_.find_first_of(",\r\n"), text_.size());
    std::string cell(text_.substr(0, end));
    text_.remove_prefix(end);
    return cell;
  }

  std::string Quoted(int64_t first) {
    std::string cell;
    text_.remove_prefix(1);
    for (;;) {
      const std::size_t quote = text_.find('"');
      if (quote == std::string_view::npos && last_) Fail(first, "a quote is opened and not closed");
      if (quote == std::string_view::npos) return text_ = {}, cell;
      cell += text_.substr(0, quote);
      text_.remove_prefix(quote + 1);
      if (text_.empty() || text_.front() != '"') break;
      cell += '"';
      text_.remove_prefix(1);
    }
    line_ += std::count(cell.begin(), cell.end(), '\n');
    if (!text_.empty() && text_.find_first_of(",\r\n") != 0) Fail(line_, "text follows a closing quote");
    return cell;
  }

  std::string name_;
  std::string_view text_;
  int64_t line_;
  bool last_;
};

void CheckColumns(const Reader& reader, const std::vector<std::string>& columns) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].empty()) reader.Fail(1, "column " + std::to_string(i + 1) + " has no name");
    if (!seen.insert(columns[i]).second) reader.Fail(1, "column '" + ShownName(columns[i]) + "' is there twice");
  }
}

// Where the header has no commas, what seems to stand in their place is named.
void CheckSeparator(const Reader& reader, std::string_view text) {
  const std::string_view header = text.substr(0, text.find_first_of("\r\n"));
  if (header.find(',') != std::string_view::npos) return;
  for (const auto& [separator, plural] : {std::pair(';', "semicolons"), std::pair('\t', "tabs")}) {
    if (header.find(separator) == std::string_view::npos) continue;
    reader.Fail(1, std::string(plural) + " stand between the cells; expected commas, and points in numbers, as 0.5,walk");
  }
}

// The first of them.
std::string Listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 10, kMostBytes = 1000;
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i == kMost || text.size() > kMostBytes) return text + " and " + std::to_string(names.size() - i) + " more";
    text += (i == 0 ? "" : ", ") + ShownName(names[i]);
  }
  return text;
}

}  // namespace

CsvBlocks::CsvBlocks(std::string name, More more) : name_(std::move(name)), more_(std::move(more)) {}

void CsvBlocks::ReadMore() {
  // Twice as much where nothing was whole, so that a long record is not looked at over and over.
  const std::size_t wanted = 2 * bytes_.size();
  do {
    last_ = !more_(bytes_);
    if (std::ssize(bytes_) > MostDataBytes())
      throw FileError(fmt::format("{}: from row {} on more than {} bytes are needed at once", name_, line_, MostDataBytes()));
  } while (!last_ && bytes_.size() < wanted);
  RequireUtf8(name_, bytes_, offset_, last_);
  if (bytes_.find('\0') != std::string::npos) throw FileError(name_ + ": the file holds a zero byte; it is no text");
}

// Reads what is whole of the bytes into the table and drops it.
void CsvBlocks::Take(CsvTable& table) {
  std::string_view text = bytes_;
  if (columns_.empty()) text = WithoutByteOrderMark(text);
  if (last_ && columns_.empty() && text.empty()) throw FileError(name_ + ": the file is empty");
  Reader reader(name_, text, line_, last_);
  std::size_t left = text.size();
  while (!reader.AtEnd()) {
    if (!columns_.empty() && reader.SkipEmptyLines()) {
      if (!reader.AtEnd()) reader.Fail(line_, "the line is empty");
      if (last_) left = 0;
      break;
    }
    std::optional<std::vector<std::string>> cells = reader.Record();
    if (!cells) break;
    if (columns_.empty()) {
      CheckSeparator(reader, text);
      CheckColumns(reader, *cells);
      columns_ = std::move(*cells);
    } else if (cells->size() != columns_.size()) {
      reader.Fail(line_, std::to_string(cells->size()) + (cells->size() == 1 ? " cell" : " cells") + " where the header has " +
                             std::to_string(columns_.size()));
    } else {
      std::ranges::move(*cells, std::back_inserter(table.cells_));
      table.lines_.push_back(line_);
    }
    left = reader.left(), line_ = reader.line();
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
  table.columns_ = columns_;
  return table;
}

CsvTable::CsvTable(const std::string& name, const std::string& bytes) {
  CsvBlocks whole(name, [&](std::string& all) {
    all = bytes;
    return false;
  });
  *this = *whole.Next();
}

int64_t CsvTable::Column(const char* option, const std::string& name) const {
  const auto found = std::ranges::find(columns_, Trimmed(name));
  if (found != columns_.end()) return found - columns_.begin();
  throw InvalidArgument(std::string(option) + ": " + name_ + " has no column '" + ShownName(name) + "'; it has " +
                        Listed(columns_));
}

const std::string& CsvTable::Text(int64_t row, int64_t column) const {
  if (Cell(row, column).empty()) throw FileError(Place(row, column) + "the value is missing");
  return Cell(row, column);
}

std::optional<double> CsvTable::TryNumber(int64_t row, int64_t column) const {
  std::string_view text = Cell(row, column);
  if (text.size() > 1 && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || rest != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

double CsvTable::Number(int64_t row, int64_t column) const {
  if (const std::optional<double> value = TryNumber(row, column)) return *value;
  throw FileError(Place(row, column) + "'" + ShownName(Text(row, column)) + "' is not a finite number");
}

double CsvTable::Date(int64_t row, int64_t column) const {
  const std::string& text = Text(row, column);
  if (const std::optional<double> seconds = SecondsOfDate(text)) return *seconds;
  throw FileError(Place(row, column) + "'" + ShownName(text) +
                  "' is no time; expected numbers, or dates as 2024-03-01T12:30:05Z in all rows");
}

std::string CsvTable::Place(int64_t row, int64_t column) const {
  return name_ + ": row " + std::to_string(lines_[row]) + ", column '" + ShownName(columns_[column]) + "': ";
}

}  // namespace heed::lab
