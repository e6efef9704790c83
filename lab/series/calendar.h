// What the calendar says of a value: the time of year, the day of the week, the hour.
#ifndef HEED_LAB_SERIES_CALENDAR_H_
#define HEED_LAB_SERIES_CALENDAR_H_

#include "lab/series/forecast.h"

namespace heed::lab {

// A curve of each sequence over its dates, sines and cosines of the year, the week and the day, to which a forecast returns
// from the last value: of what that value lies beside the curve, a share is left at each step ahead, the regression of what is
// left on what there was. The forms, see FitBest: levels or logarithms (where all values are positive), with or without a
// straight line, and two or six harmonics of each period. A period counts where the training part holds one and a half and
// steps are at most half as long; where none does, nothing is foretold. Times must be dates. Throws Interruption on Ctrl-C.
FittedForecast FitCalendar(const SeriesBatches& batches);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_CALENDAR_H_
