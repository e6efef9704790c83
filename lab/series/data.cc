#include "lab/series/data.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heed/error.h"
#include "heed/safetensors.h"

namespace heed::lab {

SeriesGoal ParseSeriesGoal(const std::string& name) {
  for (const SeriesGoal goal : {SeriesGoal::kClassification, SeriesGoal::kRegression, SeriesGoal::kForecast}) {
    if (ToString(goal) == name) return goal;
  }
  throw InvalidArgument("goal: '" + ShownName(name) + "' is unknown; choose classification, regression or forecast");
}

std::string ToString(SeriesGoal goal) {
  switch (goal) {
    case SeriesGoal::kClassification:
      return "classification";
    case SeriesGoal::kRegression:
      return "regression";
    case SeriesGoal::kForecast:
      return "forecast";
  }
  return {};
}

int64_t SeriesData::Longest() const {
  int64_t longest = 0;
  for (const SeriesSequence& sequence : sequences) longest = std::max(longest, sequence.steps);
  return longest;
}

int64_t SeriesData::TargetFeature() const {
  const auto found = std::ranges::find(features, target);
  return goal != SeriesGoal::kForecast || found == features.end() ? -1 : found - features.begin();
}

void SeriesData::CarryForward(SeriesSequence& sequence, const double* before) const {
  const int64_t target_feature = TargetFeature(), each = Numbers();
  for (int64_t step = 0; step < sequence.steps; ++step) {
    double* const values = &sequence.features[step * each];
    for (int64_t f = 0; f < Width(); ++f) {
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
