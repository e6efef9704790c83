#include "lab/series/data.h"

#include <algorithm>
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
