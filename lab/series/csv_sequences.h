// Rows of a CSV file as sequences.
#ifndef HEED_LAB_SERIES_CSV_SEQUENCES_H_
#define HEED_LAB_SERIES_CSV_SEQUENCES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lab/series/csv_table.h"
#include "lab/series/data.h"
#include "lab/series/later_cells.h"

namespace heed::lab {

using GroupedRows = std::vector<std::pair<std::string, std::vector<int64_t>>>;
// Rows of the table by sequence, in the order in which sequences begin. Without such a column (-1) all are of "all".
GroupedRows Grouped(const CsvTable& table, int64_t sequence_column);

// Places of columns in a table; -1: there is none.
struct SequenceColumns {
  std::vector<int64_t> features, texts;  // in the order of the data's features and of its marks' categories
  int64_t sequence, time;
};

// The sequences of a table, in the order in which they begin, for data that have none yet; gaps are carried forward.
// target_of(row) is not called where it is empty. later: of a file for a kept model, counts what stands for cells. Throws
// FileError that names row and column: a value that is missing where marks.gaps has not its feature, what is no number, a text
// that is no category unless `later` takes it, a time that does not increase.
std::vector<SeriesSequence> SequencesOf(const CsvTable& table, const SequenceColumns& columns, const SeriesData& data,
                                        const std::function<double(int64_t row)>& target_of, LaterCells* later = nullptr);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_CSV_SEQUENCES_H_
