// Forecasts by methods that read a sequence's own past values, whole, and no features.
#ifndef HEED_LAB_SERIES_FORECAST_H_
#define HEED_LAB_SERIES_FORECAST_H_

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "heed/past_forecasts.h"
#include "lab/series/batches.h"
#include "lab/series/kept_method.h"

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

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_FORECAST_H_
