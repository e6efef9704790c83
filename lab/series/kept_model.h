// A model of labelled sequences as it is kept in a folder, to answer data that come later:
//
//   config.json          what it is, how columns become numbers, how it was trained, what it reached
//   model.safetensors    the weights of a network, or what a method answers from
//   split.csv            which sequences trained, validated and tested
//
// Both hold a format number and are hostile until checked.
#ifndef HEED_LAB_SERIES_KEPT_MODEL_H_
#define HEED_LAB_SERIES_KEPT_MODEL_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json.hpp>

#include "lab/runs/measurements.h"
#include "lab/series/batches.h"
#include "lab/series/form.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {

class SeriesNetwork {
 public:
  // Starts as SequenceModel does. scales: of a forecast LevelScales, else undefined.
  SeriesNetwork(const SequenceModelOptions& model, at::Tensor scales) : network_(model), scales_(std::move(scales)) {}

  torch::nn::Module& module() { return *network_; }
  // [scored, outputs]: of classes their logits.
  at::Tensor Answers(const SeriesForm& form, const SeriesBatch& batch);

 private:
  SequenceModel network_;
  at::Tensor scales_;
};

// Beside the change of each column since the step before, models of a forecast see the column less its mean over the window's
// steps so far, in units of the root mean square of that over the training part. Both look back alone, so they hold at each of
// the steps at which a causal encoder is trained.

// These units: float32 [columns].
at::Tensor LevelScales(const SeriesBatches& batches);
// X: [rows, steps, batches.form().width()], features of a batch -> [rows, steps, batches.form().width() + columns].
at::Tensor WithLevels(const at::Tensor& X, const at::Tensor& scales);

// Answers windows of some data in the target's own units: float64 [scored, outputs], see SeriesBatch; of classes their
// probabilities.
using SeriesAnswers = std::function<at::Tensor(const std::vector<SeriesWindow>& windows)>;

// What a model answers, [scored, outputs] as SeriesBatch has the targets, in the target's own units; logarithms of
// probabilities become probabilities.
at::Tensor InOwnUnits(const SeriesForm& form, const SeriesData& data, const std::vector<SeriesWindow>& windows,
                      const at::Tensor& answers);

struct KeptModel {
  std::string name;  // "GRU", "ridge regression"
  SeriesForm form;
  std::optional<SequenceModelOptions> network = {};  // none: a method
  // Of a network its parameters by their names, of a forecast also "levels" (LevelScales).
  KeptMethod method;
  // Of values, by output: where 80 % of the true values of the validation and the test part lay beside the answers. Empty for
  // classes.
  std::vector<double> low = {}, high = {};
  nlohmann::ordered_json training = nlohmann::ordered_json::object();  // for people: steps, rate, seed, data
  nlohmann::ordered_json reached = nlohmann::ordered_json::object();   // for people: what was measured on the test part
};

// Fills low and high, once what is reported of the test part has been measured. A method that looks at the past of a sequence
// sees what comes before each part.
void Calibrate(KeptModel& model, const SeriesBatches& batches);

// Throws FileError.
void WriteModel(const KeptModel& model, const std::filesystem::path& folder);
// Throws FileError that names the file and what is wrong with it, as heed::SeriesModel does, which checks it.
KeptModel ReadModel(const std::filesystem::path& folder);

// The network with the kept weights, in evaluation mode, of a model that is one. Throws FileError where they are not its.
std::shared_ptr<SeriesNetwork> NetworkOf(const KeptModel& model);

// `past`: of a method that forecasts, the steps of each sequence that it may look at, from its first. The model and the data
// must outlive what is returned. Throws FileError where no sequence is long enough for the method or a value has no logarithm
// that it needs.
SeriesAnswers AnswersOf(const KeptModel& model, const SeriesData& data, const std::vector<SeriesWindow>& past);

}  // namespace heed::lab

#endif  // HEED_LAB_SERIES_KEPT_MODEL_H_
