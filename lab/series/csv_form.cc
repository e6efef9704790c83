#include "lab/series/csv_form.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <utility>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed::lab {
namespace {

constexpr int kRowsForSeparator = 20, kRowsForDecimal = 1000;

struct Separator {
  char character;
  const char *name, *plural;
};
constexpr std::array<Separator, 4> kSeparators = {
    {{',', "comma", "commas"}, {';', "semicolon", "semicolons"}, {'\t', "tab", "tabs"}, {'|', "bar", "bars"}}};

// Calls visit(cells) for the first rows that are whole, at most so many, until it returns false. A quote that is not closed
// ends them: whoever reads the rows tells of it.
template <class Visit>
void ForEachOfFirst(std::string_view text, char separator, bool last, int most, const Visit& visit) {
  CsvRecords records({}, text, separator, 1, last);
  try {
    for (int row = 0; row < most && !records.AtEnd(); ++row) {
      if (records.SkipEmptyLines() && records.AtEnd()) return;
      const std::optional<std::vector<std::string>> cells = records.Next();
      if (!cells || !visit(*cells)) return;
    }
  } catch (const FileError&) {
    return;
  }
}

// How many cells each of the first rows has; 1 where they differ.
int64_t CellsOfEach(std::string_view text, char separator, bool last) {
  int64_t count = 0;
  ForEachOfFirst(text, separator, last, kRowsForSeparator, [&](const std::vector<std::string>& cells) {
    count = count == 0 || count == std::ssize(cells) ? std::ssize(cells) : 1;
    return count > 1;
  });
  return std::max<int64_t>(1, count);
}

char SeparatorOf(std::string_view text, bool last) {
  char best = 0;
  int64_t most = 1;
  for (const Separator& separator : kSeparators) {
    const int64_t cells = CellsOfEach(text, separator.character, last);
    if (cells > most) best = separator.character, most = cells;
  }
  if (best != 0) return best;
  // The rows differ: what the first one holds is the separator of a file in which a row is wrong.
  const std::string_view header = text.substr(0, text.find_first_of("\r\n"));
  for (const Separator& separator : kSeparators) {
    if (header.find(separator.character) != std::string_view::npos) return separator.character;
  }
  return ',';
}

// Whether the cell is digits, one such mark and digits.
bool HasMark(std::string_view cell, char mark) {
  const std::size_t place = cell.find(mark);
  if (place == std::string_view::npos || cell.find(mark == ',' ? '.' : ',') != std::string_view::npos) return false;
  return NumberOf(cell, mark == ',').has_value();
}

bool HasDecimalCommas(std::string_view text, char separator, bool last) {
  bool comma = false, point = false;
  ForEachOfFirst(text, separator, last, kRowsForDecimal, [&](const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) comma = comma || HasMark(cell, ','), point = point || HasMark(cell, '.');
    return !point;
  });
  return comma && !point;
}

bool IsWord(std::string_view cell, std::string_view word) {
  return std::ranges::equal(cell, word, [](char a, char b) { return std::tolower(static_cast<unsigned char>(a)) == b; });
}

bool IsAny(std::string_view cell, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return IsWord(cell, word); });
}

}  // namespace

std::string CsvForm::Said() const {
  if (separator == ',' && !decimal_comma && header) return {};
  const auto found = std::ranges::find(kSeparators, separator, &Separator::character);
  std::string said = std::string("Cells are separated by ") +
                     (found == kSeparators.end() ? "'" + std::string(1, separator) + "'" : std::string(found->plural)) +
                     (decimal_comma ? ", and numbers have decimal commas." : ", and numbers have decimal points.");
  if (!header) said += " The columns have no names: they are c1, c2 and so on.";
  return said;
}

void Validate(const CsvOptions& options) {
  const auto known = [&](const Separator& one) { return options.separator == one.name; };
  if (options.separator.size() > 1 && std::ranges::none_of(kSeparators, known))
    throw InvalidArgument("separator: '" + ShownName(options.separator) +
                          "' is unknown; choose comma, semicolon, tab or bar, or give one character");
  constexpr std::string_view kNever = "\"\r\n.0123456789";
  if (options.separator.size() == 1 &&
      (kNever.find(options.separator) != std::string_view::npos || static_cast<unsigned char>(options.separator[0]) >= 128))
    throw InvalidArgument("separator: no cells can be told apart by '" + ShownName(options.separator) +
                          "'; choose comma, semicolon, tab or bar");
  if (!options.decimal.empty() && options.decimal != "point" && options.decimal != "comma")
    throw InvalidArgument("decimal: '" + ShownName(options.decimal) + "' is unknown; choose point or comma");
}

void Validate(const LaterCsv& csv) {
  Validate(static_cast<const CsvOptions&>(csv));
  if (csv.new_categories.empty() || csv.new_categories == "refuse" || csv.new_categories == "as-missing") return;
  throw InvalidArgument("new_categories: '" + ShownName(csv.new_categories) + "' is unknown; choose refuse or as-missing");
}

CsvForm FormOfCsv(std::string_view text, const CsvOptions& options, bool last) {
  CsvForm form{.header = options.header};
  const auto named = std::ranges::find_if(kSeparators, [&](const Separator& one) { return options.separator == one.name; });
  if (named != kSeparators.end()) {
    form.separator = named->character;
  } else {
    form.separator = options.separator.empty() ? SeparatorOf(text, last) : options.separator.front();
  }
  form.decimal_comma = options.decimal.empty() ? form.separator != ',' && HasDecimalCommas(text, form.separator, last)
                                               : options.decimal == "comma";
  return form;
}

bool IsMissing(std::string_view cell) { return cell.empty() || IsAny(cell, {"na", "n/a", "nan", "null", "?"}); }

std::optional<double> FlagOf(std::string_view cell) {
  if (IsAny(cell, {"true", "yes"})) return 1;
  if (IsAny(cell, {"false", "no"})) return 0;
  return std::nullopt;
}

std::optional<double> NumberOf(std::string_view cell, bool decimal_comma) {
  std::string spelt;
  if (decimal_comma) {
    if (cell.find('.') != std::string_view::npos) return std::nullopt;  // a point would be a mark of thousands
    spelt = cell;
    std::ranges::replace(spelt, ',', '.');
    cell = spelt;
  }
  if (cell.size() > 1 && cell.front() == '+') cell.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || error != std::errc() || rest != cell.data() + cell.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::string Trimmed(std::string_view text) {
  constexpr std::string_view kNoBreak = "\xc2\xa0";
  constexpr std::string_view kSpaces = " \t\r\n";
  for (std::size_t before = text.size() + 1; before != text.size();) {
    before = text.size();
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    text.remove_suffix(text.size() - (text.find_last_not_of(kSpaces) + 1));
    if (text.starts_with(kNoBreak)) text.remove_prefix(kNoBreak.size());
    if (text.ends_with(kNoBreak)) text.remove_suffix(kNoBreak.size());
  }
  return std::string(text);
}

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
