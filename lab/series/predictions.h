// The answers of a saved model for later data.
#ifndef HEED_LAB_SERIES_PREDICTIONS_H_
#define HEED_LAB_SERIES_PREDICTIONS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/series/kept_model.h"

namespace heed::lab {

// A table with a row for each sequence, or for each step where steps have answers of their own, or for each value of a
// forecast, which follows the last step of its sequence.
struct Predictions {
  using Cell = std::variant<std::string, int64_t, double>;

  // The sequence, the row of the file or the step ahead where there are several, of a forecast from times the time of that step
  // (2024-03-01, where it is no whole day 2024-03-01T12:30:00), then
  //   of classes  the likeliest, and the probability of each: "p CLASS"
  //   of values   the value, and an interval that held 80 % of the values of the validation and the test part: "low", "high"
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;

  int64_t answers = 0;  // the first column of these

  std::string Csv(bool header = true) const;  // answers with seven digits, more than a model is sure of
  nlohmann::ordered_json Json() const;        // an object a row, with all digits
};

// Throws FileError that names the place of a number which cannot be computed with, or a sequence which is too short, and
// Interruption on Ctrl-C.
Predictions Predict(const KeptModel& model, const SeriesData& data);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_PREDICTIONS_H_
