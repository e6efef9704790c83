#include "lab/series/npy_sequences.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "heed/error.h"
#include "lab/series/columns.h"

namespace heed::lab {

void FindGaps(const std::vector<double>& values, SeriesData& data) {
  const int64_t width = std::ssize(data.features), steps = std::ssize(values) / width;
  for (int64_t f = 0; f < width; ++f) {
    int64_t missing = 0;
    for (int64_t step = 0; step < steps; ++step) missing += std::isnan(values[step * width + f]) ? 1 : 0;
    if (missing == 0) continue;
    if (missing == steps) throw FileError(data.name + ": '" + data.features[f] + "' holds no value; leave it out of the array");
    data.marks.gaps.push_back(data.features[f]);
    data.notes.push_back(NoteOnGaps(data.features[f], missing, steps, /*foretold=*/f == data.TargetFeature()));
  }
}

SeriesSequence SequenceOf(const SeriesData& data, int64_t row, int64_t steps, const double* values, LaterCells* later) {
  const int64_t width = std::ssize(data.features);
  std::vector<int64_t> marked;  // places of the features that may lack values
  for (const std::string& name : data.marks.gaps)
    marked.push_back(std::ranges::find(data.features, name) - data.features.begin());
  SeriesSequence one{std::to_string(row), steps, {}, {}, {}};
  if (later != nullptr) later->AddRows(steps);
  for (int64_t step = 0; step < steps; ++step, values += width) {
    one.features.insert(one.features.end(), values, values + width);
    for (const int64_t f : marked) one.features.push_back(std::isnan(values[f]) ? 1 : 0);
    for (int64_t f = 0; f < width; ++f) {
      if (!std::isnan(values[f])) continue;
      if (std::ranges::find(marked, f) == marked.end())
        throw FileError(
            data.Place(one, step, data.features[f]) +
            "the value is missing, which the model has not met in this feature; fill it in, or train on data with gaps");
      if (later != nullptr) later->AddGap(data.features[f], row * steps + step, /*of_text=*/false);
    }
  }
  if (data.TargetFeature() >= 0) one.targets.resize(steps);
  data.CarryForward(one);
  return one;
}

}  // namespace heed::lab
