// Exponential smoothing of level, trend and season.
#ifndef HEED_LAB_SERIES_SMOOTHING_H_
#define HEED_LAB_SERIES_SMOOTHING_H_

#include <cstdint>
#include <vector>

#include "lab/series/forecast.h"

namespace heed::lab {

// How fast the parts follow the values, each between 0 and 1, and what is left of the trend from a step to the next.
struct SmoothingRates {
  double level, trend, season, damping;
};

// The parts after each step of a sequence, from the end of its first season on: [steps] each.
struct SmoothedParts {
  std::vector<double> level, trend, season;
};

// Holt's and Winters' additive recursions with a damped trend, in their error-correction form (Hyndman and Athanasopoulos 2021,
// "Forecasting: principles and practice", section 8.3 and 8.5): begun by the means of the first two seasons, or by the first
// value where `season` is 1, which means none. values: at least 2 seasons. Adds up the squares of the one-step errors of the
// first `fitted` values, after the first season; `parts`, where not null, is filled for all values.
double Smooth(const std::vector<double>& values, int64_t season, const SmoothingRates& rates, int64_t fitted,
              SmoothedParts* parts);

// Holt-Winters, see FitBest: the rates by one-step errors; the forms are levels or logarithms (where all values are positive)
// and the season: none, BestSeason, or one that is common where days, weeks, months or years are counted, as long as the
// training part holds two. A forecast reads all values of its sequence up to the window's end. Throws Interruption on Ctrl-C.
FittedForecast FitSmoothing(const SeriesBatches& batches);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SMOOTHING_H_
