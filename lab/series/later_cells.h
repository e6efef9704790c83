// Compares later data with the columns and categories of a saved model.
#ifndef HEED_LAB_SERIES_LATER_CELLS_H_
#define HEED_LAB_SERIES_LATER_CELLS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lab/series/csv_form.h"

namespace heed::lab {

// How a CSV file of later data is read.
struct LaterCsv : CsvOptions {
  // A text that is no category of the model: empty or "refuse", which is an error, or "as-missing", which is an empty cell.
  std::string new_categories = {};
};

// Throws InvalidArgument that names the option.
void Validate(const LaterCsv& csv);

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

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_LATER_CELLS_H_
