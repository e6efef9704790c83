// Rows of a CSV file, or of an array, as sequences.
#ifndef HEED_LAB_SERIES_CSV_SEQUENCES_H_
#define HEED_LAB_SERIES_CSV_SEQUENCES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lab/series/csv_form.h"
#include "lab/series/csv_table.h"
#include "lab/series/data.h"

namespace heed::lab {

// Counts the cells of a file that something else stands for, by column: gaps, and texts that are no category.
class LaterCells {
 public:
  explicit LaterCells(const LaterCsv& csv) : takes_new_(csv.new_categories == "as-missing") {}

  bool takes_new() const { return takes_new_; }  // whether a text that is no category counts as an empty cell
  void AddRows(int64_t rows) { rows_ += rows; }
  // line: of the file; of an array the place among the steps of all rows. of_text: the column holds categories.
  void AddGap(const std::string& column, int64_t line, bool of_text);
  void AddNew(const std::string& column, int64_t line, const std::string& text);

  // A sentence for each column with gaps, then for each with new texts: how many there are, where the first is, and what stands
  // for them. steps: of each row of an array; 0 for a file of lines.
  std::vector<std::string> Notes(int64_t steps = 0) const;

 private:
  struct Cells {
    int64_t count = 0, first = 0;  // line
    bool of_text = false;
    std::vector<std::string> texts = {};  // the first different ones, one more than are named
  };
  static void Add(Cells& cells, int64_t line);

  bool takes_new_;
  int64_t rows_ = 0;
  std::map<std::string, Cells> gaps_, new_;  // by column
};

using GroupedRows = std::vector<std::pair<std::string, std::vector<int64_t>>>;
// Rows of the table by sequence, in the order in which sequences begin. Without such a column (-1) all are of "all".
GroupedRows Grouped(const CsvTable& table, int64_t sequence_column);

// Places of columns in a table; -1: there is none.
struct SequenceColumns {
  std::vector<int64_t> features = {}, texts = {};  // in the order of the data's features and of its marks' categories
  int64_t sequence = -1, time = -1, target = -1;
};

// The sequences of a table, in the order in which they begin, for data that have none yet; gaps are carried forward. later: of
// a file for a kept model, counts what stands for cells. Throws FileError that names row and column: a value that is missing
// where marks.gaps has not its feature, what is no number, a text that is no class, or no category unless `later` takes it, a
// time that does not increase.
std::vector<SeriesSequence> SequencesOf(const CsvTable& table, const SequenceColumns& columns, const SeriesData& data,
                                        LaterCells* later = nullptr);

// The gaps of an array [rows, steps, features], NaN, into the marks and the notes of data that have its features. Throws
// FileError that names a feature which holds nothing else.
void FindGaps(const std::vector<double>& values, SeriesData& data);

// A row of it, values [steps, features], for data whose marks are known; gaps are carried forward. Only a forecast whose target
// is a feature has targets. later: of an array for a kept model, counts what stands for values. Throws FileError that names the
// place of a missing value where marks.gaps has not its feature.
SeriesSequence SequenceOf(const SeriesData& data, int64_t row, int64_t steps, const double* values,
                          LaterCells* later = nullptr);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_CSV_SEQUENCES_H_
