#include "lab/series/range.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace heed::lab {
namespace {

using Visit = std::function<void(double)>;

// The values of a column in a part: feature `column`, or the target for -1.
void ForEachValue(const SeriesData& data, const std::vector<SeriesWindow>& part, int64_t column, const Visit& visit) {
  const int64_t each = data.numbers();
  for (const SeriesWindow& window : part) {
    const SeriesSequence& sequence = data.sequences[window.sequence];
    if (column < 0 && !data.each_step) {
      visit(sequence.targets.front());
      continue;
    }
    for (int64_t step = window.first; step < window.end(); ++step) {
      visit(column < 0 ? sequence.targets[step] : sequence.features[step * each + column]);
    }
  }
}

SeriesRange RangeOf(const SeriesBatches& batches, int64_t column) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const SeriesData& data = batches.data();
  SeriesRange range{column < 0 ? data.target : data.features[column], kInfinity, -kInfinity, kInfinity, -kInfinity};
  ForEachValue(data, batches.training_steps(), column,
               [&](double value) { range.low = std::min(range.low, value), range.high = std::max(range.high, value); });
  double count = 0;
  ForEachValue(data, batches.test_steps(), column, [&](double value) {
    range.test_low = std::min(range.test_low, value), range.test_high = std::max(range.test_high, value);
    range.outside += value < range.low || value > range.high ? 1 : 0;
    count += 1;
  });
  range.outside /= count;
  return range;
}

}  // namespace

std::vector<SeriesRange> RangesLeft(const SeriesBatches& batches) {
  const SeriesData& data = batches.data();
  const bool target = !data.Classifies() && std::ranges::find(data.features, data.target) == data.features.end();
  std::vector<SeriesRange> ranges;
  for (int64_t column = target ? -1 : 0; column < std::ssize(data.features); ++column) {
    SeriesRange range = RangeOf(batches, column);
    if (range.outside > 0) ranges.push_back(std::move(range));
  }
  std::ranges::stable_sort(ranges, std::ranges::greater(), &SeriesRange::outside);
  return ranges;
}

}  // namespace heed::lab
