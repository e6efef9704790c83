// Forecasts by methods that read a sequence's own past values, whole, and no features.
#ifndef HEED_LAB_SERIES_FORECAST_H_
#define HEED_LAB_SERIES_FORECAST_H_

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heed/past_forecasts.h"
#include "lab/runs/measurements.h"
#include "lab/series/batches.h"

namespace heed::lab {

// The values that follow a window: [SeriesBatches::outputs()], in the target's own units.
using Forecaster = std::function<void(const SeriesWindow& window, std::vector<double>& values)>;

// Mean squared error in the target's own units.
double ForecastLoss(const SeriesBatches& batches, const std::vector<SeriesWindow>& windows, const Forecaster& foretell);

struct FittedForecast {
  std::string setting;  // "12 steps"
  Forecaster foretell;
  KeptMethod kept = {};
  double validation = NAN;  // the loss on the validation part, fitted without it
};

// The form that loses least on the validation part when it is fitted to the training part, the first of equals; then fitted to
// all that comes before the test part. fit(form, past): past holds the steps of each sequence to fit to, from its first.
template <class Form, class Fit>
FittedForecast FitBest(const SeriesBatches& batches, const std::vector<Form>& forms, const Fit& fit) {
  const Form* best = &forms.front();
  double least = INFINITY;
  for (const Form& form : forms) {
    const double loss = ForecastLoss(batches, batches.validation_windows(), fit(form, batches.training_steps()).foretell);
    if (loss < least) least = loss, best = &form;
  }
  FittedForecast fitted = fit(*best, batches.StepsBeforeTest());
  fitted.validation = least;
  return fitted;
}

// Whether all values of the target have logarithms.
bool HasLogarithms(const SeriesData& data);

// heed::RepeatedSeason of the targets before a window's end. `data` must outlive it.
Forecaster LastSeason(const SeriesData& data, int64_t season);

// The length from 2 steps to the window's by the loss on the validation part, the shortest of equals. With long windows and far
// horizons fewer of that part's windows are looked at. Throws Interruption on Ctrl-C.
int64_t BestSeason(const SeriesBatches& batches);

// A forecast reads all values of its sequence up to the window's end. The season of a sequence is that of the steps of `past`,
// one window a sequence. `unit`: what values are divided by where they are smoothed themselves.
Forecaster SmoothingForecaster(const SeriesData& data, double unit, const Smoothing& method,
                               const std::vector<SeriesWindow>& past);

// Holt-Winters, see FitBest: the rates by one-step errors; the forms are levels or logarithms (where all values are positive)
// and the season: none, BestSeason, or one that is common where days, weeks, months or years are counted, as long as the
// training part holds two. Throws Interruption on Ctrl-C.
FittedForecast FitSmoothing(const SeriesBatches& batches);

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

#endif  // HEED_LAB_SERIES_FORECAST_H_
