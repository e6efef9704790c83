#include "lab/series/season.h"

#include <algorithm>
#include <limits>
#include <span>

#include "heed/past_forecasts.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostSquares = int64_t{1} << 28;  // that are summed to choose a season

}  // namespace

Forecaster LastSeason(const SeriesData& data, int64_t season) {
  return [&data, method = RepeatedSeason{season}](const SeriesWindow& window, std::vector<double>& values) {
    const std::span<const double> targets = data.sequences[window.sequence].targets;
    method.Foretell(targets.first(window.end()), values);
  };
}

int64_t BestSeason(const SeriesBatches& batches) {
  const int64_t squares = batches.longest() * batches.outputs();
  const std::vector<SeriesWindow> windows =
      EvenlySpread(batches.validation_windows(), std::max<int64_t>(1, kMostSquares / squares));
  int64_t best = 2;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t season = 2; season <= batches.longest(); ++season) {
    const double loss = ForecastLoss(batches, windows, LastSeason(batches.data(), season));
    if (loss < least) least = loss, best = season;
  }
  return best;
}

}  // namespace heed::lab
