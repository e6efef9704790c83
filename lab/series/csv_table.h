// A CSV file as cells, checked for its shape.
#ifndef HEED_LAB_SERIES_CSV_TABLE_H_
#define HEED_LAB_SERIES_CSV_TABLE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lab/series/csv_form.h"
#include "lab/series/date.h"

namespace heed::lab {

// The first names of a list, and how many others there are.
std::string Listed(const std::vector<std::string>& names, std::size_t most = 10);

class CsvTable {
 public:
  // In UTF-8, see CsvRecords and FormOfCsv; a byte order mark, empty lines at the end and spaces around cells are left out; ""
  // is a row with one cell. The first row names the columns, of which the first alone may have no name, as an index. Throws
  // FileError that names `name` and the row (1 is the first): UTF-16, cells without an end, text behind a closing quote, empty
  // lines between rows, another number of cells than the first row has, no rows, columns without or of the same name.
  CsvTable(const std::string& name, const std::string& bytes, const CsvOptions& options = {});

  const std::string& name() const { return name_; }
  const CsvForm& form() const { return form_; }
  const std::vector<std::string>& columns() const { return columns_; }
  int64_t rows() const { return static_cast<int64_t>(lines_.size()); }
  // Throws InvalidArgument that names the option and lists the first columns.
  int64_t Column(const char* option, const std::string& name) const;

  const std::string& Cell(int64_t row, int64_t column) const { return cells_[row * std::ssize(columns_) + column]; }
  // The cell as it stands. Throws FileError that names row and column where it is empty.
  const std::string& Text(int64_t row, int64_t column) const;
  bool Missing(int64_t row, int64_t column) const { return IsMissing(Cell(row, column)); }
  // A finite number, see NumberOf, or a flag, see FlagOf. Throws FileError that names row and column where the cell is neither.
  double Number(int64_t row, int64_t column) const;
  // A date, see SecondsOfDate. Throws FileError that names row and column.
  double Date(int64_t row, int64_t column, DateOrder order) const;
  // The number; nothing where the cell is none.
  std::optional<double> TryNumber(int64_t row, int64_t column) const {
    return NumberOf(Cell(row, column), form_.decimal_comma);
  }

  int64_t Line(int64_t row) const { return lines_[row]; }  // of the file, from 1
  // "data.csv: row 7, column 'x': " for errors; row counts from 0, the message by lines of the file.
  std::string Place(int64_t row, int64_t column) const;

 private:
  friend class CsvBlocks;
  CsvTable() = default;

  std::string name_;
  CsvForm form_;
  std::vector<std::string> columns_;
  std::vector<std::string> cells_;  // [rows, columns]
  std::vector<int64_t> lines_;      // of each row in the file
};

// The same file as tables of some rows each, for one that is larger than memory.
class CsvBlocks {
 public:
  // Appends some of the file's bytes, at least one where it says that others follow.
  using More = std::function<bool(std::string& bytes)>;
  CsvBlocks(std::string name, More more, CsvOptions options = {});

  // The rows that are whole in what more() yields next, at least one; nothing at the end. Throws as a CsvTable does, and
  // FileError for a row of more than MostDataBytes().
  std::optional<CsvTable> Next();
  bool AtEnd() const { return last_; }  // whether Next() has nothing more

 private:
  void ReadMore();
  void Take(CsvTable& table);
  void Begin(std::string_view text);

  std::string name_;
  More more_;
  CsvOptions options_;
  std::optional<CsvForm> form_;
  std::vector<std::string> columns_;
  std::string bytes_;                // that are not yet in a table
  int64_t offset_ = 0;               // of their first in the file
  int64_t line_ = 1;                 // of their first
  bool last_ = false, any_ = false;  // no bytes follow; there were rows
};

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_CSV_TABLE_H_
