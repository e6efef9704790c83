// The shift and divisor of a column, so that models see numbers near 1.
#ifndef HEED_LAB_SERIES_SCALE_H_
#define HEED_LAB_SERIES_SCALE_H_

#include <vector>

namespace heed::lab {

struct Moments {
  double mean = 0, deviation = 1;
};

// At least one value. What never changes but by rounding, some 45 units in the last place of its mean, has a deviation of 1 and
// so stays near 0.
Moments MomentsOf(const std::vector<double>& values);

// Root of the mean square of changes from one value of a column to another; 1 where there are none, or none but by rounding
// beside the column's mean.
double ScaleOfChanges(const std::vector<double>& changes, double mean);

// 1 of nothing.
double Median(std::vector<double> values);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SCALE_H_
