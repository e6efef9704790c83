#include "lab/series/season.h"

#include <algorithm>
#include <limits>

#include "lab/training/interrupt.h"

namespace heed::lab {
namespace {

constexpr int64_t kMostSquares = int64_t{1} << 28;  // that are summed to choose a season

}  // namespace

double SeasonLoss(const SeriesBatches& batches, const std::vector<SeriesWindow>& windows, int64_t season) {
  double sum = 0;
  for (const SeriesWindow& window : windows) {
    const std::vector<double>& targets = batches.data().sequences[window.sequence].targets;
    for (int64_t h = 1; h <= batches.outputs(); ++h) {
      const int64_t place = window.end() - 1 + h, seasons = (h + season - 1) / season;
      const double error = (targets[place] - targets[place - seasons * season]) / batches.target_scale();
      sum += error * error;
    }
  }
  return sum * batches.error_scale() / static_cast<double>(std::ssize(windows) * batches.outputs());
}

int64_t BestSeason(const SeriesBatches& batches) {
  const std::vector<SeriesWindow>& all = batches.validation_windows();
  const int64_t squares = batches.longest() * batches.outputs(), count = std::ssize(all);
  const int64_t kept = std::clamp<int64_t>(kMostSquares / squares, 1, count);
  std::vector<SeriesWindow> windows;
  for (int64_t i = 0; i < kept; ++i) windows.push_back(all[i * count / kept]);
  int64_t best = 2;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t season = 2; season <= batches.longest(); ++season) {
    if (Interrupted()) throw Interruption("interrupted while a season was looked for");
    const double loss = SeasonLoss(batches, windows, season);
    if (loss < least) least = loss, best = season;
  }
  return best;
}

}  // namespace heed::lab
