#include "lab/series/csv_records.h"

#include <algorithm>
#include <utility>

#include "heed/error.h"
#include "lab/series/csv_form.h"

namespace heed::lab {

CsvRecords::CsvRecords(std::string name, std::string_view text, char separator, int64_t line, bool last)
    : name_(std::move(name)), text_(text), ends_({separator, '\r', '\n'}), line_(line), last_(last) {}

bool CsvRecords::SkipEmptyLines() {
  const std::size_t length = std::min(text_.find_first_not_of("\r\n"), text_.size());
  line_ += std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(length), '\n');
  text_.remove_prefix(length);
  return length > 0;
}

std::optional<std::vector<std::string>> CsvRecords::Next() {
  std::vector<std::string> cells;
  const int64_t first = line_;
  for (;;) {
    const std::size_t blanks = Blanks();
    if (blanks < text_.size() && text_[blanks] == '"') {
      text_.remove_prefix(blanks);
      cells.emplace_back(Trimmed(Quoted(first)));
    } else {
      cells.emplace_back(Trimmed(Plain()));
    }
    if (text_.empty()) return last_ ? std::optional(std::move(cells)) : std::nullopt;
    const char end = text_.front();
    text_.remove_prefix(1);
    if (end == ends_.front()) continue;
    if (end == '\r' && text_.empty() && !last_) return std::nullopt;
    if (end == '\r' && !text_.empty() && text_.front() == '\n') text_.remove_prefix(1);
    ++line_;
    return cells;
  }
}

void CsvRecords::Fail(int64_t line, const std::string& message) const {
  throw FileError(name_ + ": row " + std::to_string(line) + ": " + message);
}

std::size_t CsvRecords::Blanks() const {
  const char* const blanks = ends_.front() == '\t' ? " " : " \t";
  return std::min(text_.find_first_not_of(blanks), text_.size());
}

std::string CsvRecords::Plain() {
  const std::size_t end = std::min(text_.find_first_of(ends_), text_.size());
  std::string cell(text_.substr(0, end));
  text_.remove_prefix(end);
  return cell;
}

std::string CsvRecords::Quoted(int64_t first) {
  std::string cell;
  text_.remove_prefix(1);
  for (;;) {
    const std::size_t quote = text_.find('"');
    if (quote == std::string_view::npos && last_) Fail(first, "a quote is not closed; close it after its cell");
    if (quote == std::string_view::npos) return text_ = {}, cell;
    cell += text_.substr(0, quote);
    text_.remove_prefix(quote + 1);
    if (text_.empty() || text_.front() != '"') break;
    cell += '"';
    text_.remove_prefix(1);
  }
  line_ += std::count(cell.begin(), cell.end(), '\n');
  text_.remove_prefix(Blanks());
  if (!text_.empty() && text_.find_first_of(ends_) != 0)
    Fail(line_, "text follows a closing quote; double a quote within quotes");
  return cell;
}

}  // namespace heed::lab
