// Predicts values from the calendar: the time of year, the day of the week, the hour.
#ifndef HEED_LAB_SERIES_CALENDAR_H_
#define HEED_LAB_SERIES_CALENDAR_H_

#include <cstdint>
#include <vector>

#include "heed/past_forecasts.h"
#include "lab/series/forecast.h"

namespace heed::lab {

// Of data with dates. Fits the curve of each sequence to the steps of `past`, one window a sequence, and seven times anew on
// the way to the whole sequence, because a later forecast would be fitted to all values that are known by then. The last fit
// that sees no step behind the window forecasts it. `unit` as for SmoothingForecaster; `outputs`: values that are foretold.
// `data` must outlive the result, which one thread may call at a time; windows in order cost no fit twice. Both throw
// Interruption on Ctrl-C.
Forecaster CalendarForecaster(const SeriesData& data, double unit, int64_t outputs, const Calendar& method,
                              const std::vector<SeriesWindow>& past);

// A forecast returns from the last value to a curve. Say the last day was 4 degrees warmer than the curve, and days in the past
// kept 0.7 of such a distance after one day and 0.5 after two: then tomorrow is foretold 2.8 degrees above the curve, and the
// day after it 2. The curve of a sequence is a ridge regression on sines and cosines of its dates: year, week and day. The
// forms, see FitBest: levels or logarithms (where all values are positive), with or without a straight line, and two or six
// harmonics of each period. A period counts where the training part holds one and a half of it and a step is at most half of
// it; where none counts, nothing is foretold. Times must be dates. Throws Interruption on Ctrl-C.
FittedForecast FitCalendar(const SeriesBatches& batches);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_CALENDAR_H_
