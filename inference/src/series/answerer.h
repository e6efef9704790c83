// What answers sequences, a network or a kept method, and where the answers belong.
#ifndef HEED_INFERENCE_SRC_SERIES_ANSWERER_H_
#define HEED_INFERENCE_SRC_SERIES_ANSWERER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config_reader.h"
#include "heed/series_windows.h"
#include "kept_arrays.h"

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

class SeriesModel::Answerer {
 public:
  virtual ~Answerer() = default;
  // The fewest steps of a row that it answers.
  virtual int64_t LeastSteps() const { return 1; }
  // All rows of an input whose shapes and numbers are checked. Throws InvalidArgument before it puts an answer.
  virtual void Answer(const SeriesForm& form, const SeriesInput& input, const AnswerPlaces& places, ModelWorkspace& workspace,
                      Executor& executor) const = 0;
};

// Answers windows, so many at a time.
class WindowAnswerer : public SeriesModel::Answerer {
 public:
  void Answer(const SeriesForm& form, const SeriesInput& input, const AnswerPlaces& places, ModelWorkspace& workspace,
              Executor& executor) const final;

 private:
  // out [answers, outputs]: of each window one answer, or one for each of its `batch.steps`. Of classes logits or logarithms of
  // probabilities; values standardised, of a forecast what is added to the last one, in units of its typical change.
  virtual void AnswerBatch(const SeriesBatch& batch, View<double, 2> out, ModelWorkspace& workspace,
                           Executor& executor) const = 0;
};

// Of the file's "network", whose weights are in the other file. Throw FileError, and InvalidArgument that names a field.
std::unique_ptr<SeriesModel::Answerer> ReadNetwork(const ConfigReader& config, const std::string& weights_path,
                                                   const SeriesForm& form);
// The same of the file's "method".
std::unique_ptr<SeriesModel::Answerer> ReadMethod(const ConfigReader& config, const KeptArrays& arrays, const SeriesForm& form);
// Of the kind "season", "smoothing" or "calendar", which look at a sequence's whole past; null of another.
std::unique_ptr<SeriesModel::Answerer> ReadPastMethod(const std::string& kind, const ConfigReader& config,
                                                      const ConfigReader::Json& settings, const SeriesForm& form);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_SERIES_ANSWERER_H_
