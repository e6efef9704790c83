#include "lab/series/data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed::lab {

int64_t SeriesData::Longest() const {
  int64_t longest = 0;
  for (const SeriesSequence& sequence : sequences) longest = std::max(longest, sequence.steps);
  return longest;
}

int64_t SeriesData::TargetFeature() const {
  const auto found = std::ranges::find(features, target);
  return !Forecasts() || found == features.end() ? -1 : found - features.begin();
}

void SeriesData::CarryForward(SeriesSequence& sequence, const double* before) const {
  const int64_t target_feature = TargetFeature(), each = numbers();
  for (int64_t step = 0; step < sequence.steps; ++step) {
    double* const values = &sequence.features[step * each];
    for (int64_t f = 0; f < std::ssize(features); ++f) {
      if (std::isnan(values[f]) && before != nullptr) values[f] = before[f];
    }
    if (target_feature >= 0 && !sequence.targets.empty()) sequence.targets[step] = values[target_feature];
    before = values;
  }
}

std::string SeriesData::Place(const SeriesSequence& sequence, int64_t step, const std::string& column) const {
  if (sequence.rows.empty()) {
    return name + ": sequence " + sequence.id + ", step " + std::to_string(step) + ", '" + ShownName(column) + "': ";
  }
  return name + ": row " + std::to_string(sequence.rows[step]) + ", column '" + ShownName(column) + "': ";
}

int64_t SeriesData::Steps() const {
  return std::accumulate(sequences.begin(), sequences.end(), int64_t{0},
                         [](int64_t sum, const SeriesSequence& sequence) { return sum + sequence.steps; });
}

}  // namespace heed::lab
