// Columns whose values leave, in the test part, the range that they have in the training part.
#ifndef HEED_LAB_SERIES_RANGE_H_
#define HEED_LAB_SERIES_RANGE_H_

#include <string>
#include <vector>

#include "lab/series/batches.h"

namespace heed::lab {

struct SeriesRange {
  std::string column;
  double low = 0, high = 0;            // of the training part
  double test_low = 0, test_high = 0;  // of the test part
  double outside = 0;                  // share of the test part's values that lie outside
};

// Of the features, and of the target where it is a number and no feature; those alone that leave it, by the share of their
// values that does, the greatest first.
std::vector<SeriesRange> RangesLeft(const SeriesBatches& batches);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_RANGE_H_
