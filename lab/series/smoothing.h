// Exponential smoothing of level, trend and season.
#ifndef HEED_LAB_SERIES_SMOOTHING_H_
#define HEED_LAB_SERIES_SMOOTHING_H_

#include <vector>

#include "heed/past_forecasts.h"
#include "lab/series/forecast.h"

namespace heed::lab {

// A forecast reads all values of its sequence up to the window's end. The season of a sequence is that of the steps of `past`,
// one window a sequence. `unit`: what values are divided by where they are smoothed themselves.
Forecaster SmoothingForecaster(const SeriesData& data, double unit, const Smoothing& method,
                               const std::vector<SeriesWindow>& past);

// Holt-Winters, see FitBest: the rates by one-step errors; the forms are levels or logarithms (where all values are positive)
// and the season: none, BestSeason, or one that is common where days, weeks, months or years are counted, as long as the
// training part holds two. Throws Interruption on Ctrl-C.
FittedForecast FitSmoothing(const SeriesBatches& batches);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SMOOTHING_H_
