// Numbers that are finite and still too large or too small to compute with, found by their place before any training.
#ifndef HEED_LAB_SERIES_MAGNITUDES_H_
#define HEED_LAB_SERIES_MAGNITUDES_H_

#include <cstdint>

#include "lab/series/form.h"

namespace heed::lab {

// All throw FileError that names file, row (or sequence and step), column and value.

// Features, times and numbers to foretell lie within +-1e100: sums of squares of many of them are finite then.
void RequireMagnitudes(const SeriesData& data);

// Standardised by the form, no feature and no number to foretell is beyond 1e15, whose squares a float holds; the squared
// deviation of the target, in which errors are told, does not vanish.
void RequireStandardised(const SeriesData& data, const SeriesForm& form);

// Both, and for times that they can be told apart, of data that a model of this form is to read.
void RequireComputable(const SeriesData& data, const SeriesForm& form);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_MAGNITUDES_H_
