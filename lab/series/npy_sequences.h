// Rows of an array as sequences.
#ifndef HEED_LAB_SERIES_NPY_SEQUENCES_H_
#define HEED_LAB_SERIES_NPY_SEQUENCES_H_

#include <cstdint>
#include <vector>

#include "lab/series/data.h"
#include "lab/series/later_cells.h"

namespace heed::lab {

// The gaps of an array [rows, steps, features], NaN, into the marks and the notes of data that have its features. Throws
// FileError that names a feature which holds nothing else.
void FindGaps(const std::vector<double>& values, SeriesData& data);

// A row of it, values [steps, features], for data whose marks are known; gaps are carried forward. Only a forecast whose target
// is a feature has targets. later: of an array for a kept model, counts what stands for values. Throws FileError that names the
// place of a missing value where marks.gaps has not its feature.
SeriesSequence SequenceOf(const SeriesData& data, int64_t row, int64_t steps, const double* values,
                          LaterCells* later = nullptr);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_NPY_SEQUENCES_H_
