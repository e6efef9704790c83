// The rows of a table of text, one by one.
#ifndef HEED_LAB_SERIES_CSV_RECORDS_H_
#define HEED_LAB_SERIES_CSV_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::lab {

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

#endif  // HEED_LAB_SERIES_CSV_RECORDS_H_
