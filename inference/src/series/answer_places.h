// Where the answers of a model belong.
#ifndef HEED_INFERENCE_SRC_SERIES_ANSWER_PLACES_H_
#define HEED_INFERENCE_SRC_SERIES_ANSWER_PLACES_H_

#include <cstdint>
#include <vector>

#include "series/windows.h"

namespace heed {

class AnswerPlaces {
 public:
  // low, high: what is added to an answer for the ends of its interval, by output; empty for classes.
  AnswerPlaces(const SeriesForm& form, const SeriesInput& input, const SeriesAnswers& answers, const std::vector<double>& low,
               const std::vector<double>& high)
      : form_(form), input_(input), answers_(answers), low_(low), high_(high) {}

  // `answer`, [outputs], as a WindowAnswerer gives it, is that of a step of a window, from 0, or of all of it; it is
  // overwritten. Throws Error where it is not finite.
  void Put(const SeriesWindow& window, int64_t step, double* answer) const;
  // The values of a row's forecast, in the target's own units. Throws Error where one is not finite.
  void PutForecast(int64_t row, const double* values) const;
  // Zeros behind a row's length.
  void Clear(int64_t row) const;

 private:
  void RequireFinite(int64_t row, const double* answer) const;
  void PutValue(int64_t row, int64_t place, int64_t output, double value) const;

  const SeriesForm& form_;
  const SeriesInput& input_;
  const SeriesAnswers& answers_;
  const std::vector<double>&low_, &high_;
};

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_SERIES_ANSWER_PLACES_H_
