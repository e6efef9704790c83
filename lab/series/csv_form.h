// How a table of text is written: what stands between its cells, how its numbers and missing values are spelt.
#ifndef HEED_LAB_SERIES_CSV_FORM_H_
#define HEED_LAB_SERIES_CSV_FORM_H_

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

struct CsvForm {
  char separator = ',';
  bool decimal_comma = false;
  bool header = true;

  // "Cells are separated by semicolons, and numbers have decimal commas."; empty for commas and points.
  std::string Said() const;
};

// Throws InvalidArgument that names the option.
void Validate(const CsvOptions& options);

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

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_CSV_FORM_H_
