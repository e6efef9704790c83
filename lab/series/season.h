// The value a season ago.
#ifndef HEED_LAB_SERIES_SEASON_H_
#define HEED_LAB_SERIES_SEASON_H_

#include <cstdint>

#include "lab/series/forecast.h"

namespace heed::lab {

// heed::RepeatedSeason of the targets before a window's end. `data` must outlive it.
Forecaster LastSeason(const SeriesData& data, int64_t season);

// The length from 2 steps to the window's by the loss on the validation part, the shortest of equals. With long windows and far
// horizons fewer of that part's windows are looked at. Throws Interruption on Ctrl-C.
int64_t BestSeason(const SeriesBatches& batches);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_SEASON_H_
