// How a table of text is written: what stands between its cells, how its numbers and missing values are spelt.
#ifndef HEED_LAB_SERIES_CSV_FORM_H_
#define HEED_LAB_SERIES_CSV_FORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::lab {

// What a user says of it; what is empty is found out from the file.
struct CsvOptions {
  std::string separator = {};  // "comma", "semicolon", "tab", "bar"; or the character itself
  std::string decimal = {};    // "point" or "comma"
  bool header = true;          // the first row names the columns; else they are c1, c2, ..
};

// How a CSV file of later data is read.
struct LaterCsv : CsvOptions {
  // A text that is no category of the model: empty or "refuse", which is an error, or "as-missing", which is an empty cell.
  std::string new_categories = {};
};

struct CsvForm {
  char separator = ',';
  bool decimal_comma = false;
  bool header = true;

  // "Cells are separated by semicolons, and numbers have decimal commas."; empty for commas and points.
  std::string Said() const;
};

// Throw InvalidArgument that names the option.
void Validate(const CsvOptions& options);
void Validate(const LaterCsv& csv);

// The form of a table that begins with `text`, in UTF-8; `last`: nothing follows. Without options the separator is the one
// that gives the first twenty rows the same number of cells, two or more, and of several the one that gives the most. Where
// that is no comma, numbers have decimal commas if some of the first rows are written as 3,14 and none as 3.14.
CsvForm FormOfCsv(std::string_view text, const CsvOptions& options, bool last);

// Whether a cell holds no value: it is empty, or NA, N/A, NaN, null or ?, in letters of any size.
bool IsMissing(std::string_view cell);
// true and yes are 1, false and no 0, in letters of any size; nothing where the cell is none of them.
std::optional<double> FlagOf(std::string_view cell);
// A finite number as 0.5, -3e4 or +7, where `decimal_comma` as 0,5.
std::optional<double> NumberOf(std::string_view cell, bool decimal_comma);
// Without the spaces, tabs, line ends and no-break spaces around it.
std::string Trimmed(std::string_view text);

// RFC 4180: cells between separators, quotes doubled within quotes, rows that end in LF or CRLF. Blanks may stand beside
// quotes.
class CsvRecords {
 public:
  // `name` of the file and `line`, that of the text's first row, are for messages. `last`: nothing follows the text.
  CsvRecords(std::string name, std::string_view text, char separator, int64_t line, bool last);

  bool AtEnd() const { return text_.empty(); }
  std::size_t left() const { return text_.size(); }
  int64_t line() const { return line_; }

  // Whether the text goes on with empty lines, which are then behind it.
  bool SkipEmptyLines();
  // The next row's cells, trimmed; nothing where the row may go on behind the text. Throws FileError that names the row: a
  // quote that is not closed, text behind a closing quote.
  std::optional<std::vector<std::string>> Next();

  // Throws FileError that names the row.
  [[noreturn]] void Fail(int64_t line, const std::string& message) const;

 private:
  std::size_t Blanks() const;  // how many come next
  std::string Plain();
  std::string Quoted(int64_t first);

  std::string name_;
  std::string_view text_;
  std::string ends_;  // the characters that end a cell
  int64_t line_;
  bool last_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_CSV_FORM_H_
