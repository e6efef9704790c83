// What answers a batch of windows: a network, or a kept method.
#ifndef HEED_INFERENCE_SRC_SERIES_ANSWERER_H_
#define HEED_INFERENCE_SRC_SERIES_ANSWERER_H_

#include <memory>
#include <string>

#include "config_reader.h"
#include "series/windows.h"

namespace heed {

class SeriesModel::Answerer {
 public:
  virtual ~Answerer() = default;
  // The fewest steps of a row that it answers.
  virtual int64_t LeastSteps() const { return 1; }
  // out [answers, outputs]: of each window one answer, or one for each of its `batch.steps`. Of classes logits or logarithms of
  // probabilities; values standardised, of a forecast what is added to the last one, in units of its typical change.
  virtual void Answer(const SeriesBatch& batch, View<double, 2> out, ModelWorkspace& workspace, Executor& executor) const = 0;
};

// Of the file's "network", whose weights are in the other file. Throw FileError, and InvalidArgument that names a field.
std::unique_ptr<SeriesModel::Answerer> ReadNetwork(const ConfigReader& config, const std::string& weights_path,
                                                   const SeriesForm& form);
// The same of the file's "method".
std::unique_ptr<SeriesModel::Answerer> ReadMethod(const ConfigReader& config, const std::string& weights_path,
                                                  const SeriesForm& form);

}  // namespace heed

#endif  // HEED_INFERENCE_SRC_SERIES_ANSWERER_H_
