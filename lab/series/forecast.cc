#include "lab/series/forecast.h"

#include <algorithm>
#include <cmath>

#include "lab/training/interrupt.h"

namespace heed::lab {

double ForecastLoss(const SeriesBatches& batches, const std::vector<SeriesWindow>& windows, const Forecaster& foretell) {
  std::vector<double> values(batches.outputs());
  double sum = 0;
  for (const SeriesWindow& window : windows) {
    if (Interrupted()) throw Interruption("interrupted while a forecast was measured");
    const std::vector<double>& targets = batches.data().sequences[window.sequence].targets;
    foretell(window, values);
    for (int64_t h = 0; h < batches.outputs(); ++h)
      sum += std::pow((targets[window.end() + h] - values[h]) / batches.target_scale(), 2);
  }
  return sum * batches.error_scale() / static_cast<double>(std::ssize(windows) * batches.outputs());
}

bool HasLogarithms(const SeriesData& data) {
  return std::ranges::all_of(data.sequences, [](const SeriesSequence& sequence) {
    return std::ranges::all_of(sequence.targets, [](double value) { return value > 0; });
  });
}

}  // namespace heed::lab
