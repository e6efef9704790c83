// Whole models in folders as `heed train` keeps them, of every encoder and with random weights, for tests of their bits.
#ifndef HEED_TESTS_INFERENCE_KEPT_MODELS_H_
#define HEED_TESTS_INFERENCE_KEPT_MODELS_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "encoder_bits.h"
#include "heed/character_model.h"
#include "heed/series_model.h"
#include "stored_tensors.h"

namespace heed {

// Sequences for a model of three features, and what it answers for `rows` of them.
struct KeptModelRows {
  static constexpr int64_t kFeatures = 3, kClasses = 5;
  std::vector<int64_t> lengths = {200, 1, 4, 65};
  BitsBatch batch{lengths, kFeatures};

  std::vector<double> Answers(const SeriesModel& model, int64_t first, int64_t rows, Executor& executor) const {
    std::vector<int64_t> counts(lengths.begin() + first, lengths.begin() + first + rows);
    const int64_t steps = *std::max_element(counts.begin(), counts.end());
    std::vector<double> features;
    for (int64_t row = first; row < first + rows; ++row) {
      const auto begin = batch.numbers.begin() + row * batch.steps * kFeatures;
      features.insert(features.end(), begin, begin + steps * kFeatures);
    }
    const std::array<int64_t, 3> extent{rows, model.Answered(steps), model.form().outputs()};
    std::vector<double> values(static_cast<std::size_t>(extent[0] * extent[1] * extent[2]));
    ModelWorkspace workspace;
    model.Predict({.features = View<const double, 3>::Contiguous(features.data(), {rows, steps, kFeatures}),
                   .lengths = View<const int64_t, 1>::Contiguous(counts.data(), {rows})},
                  {.values = View<double, 3>::Contiguous(values.data(), extent)}, workspace, executor);
    return values;
  }
};

// Adds tensors to a file's, whose numbers are multiples of 2^-11.
class KeptWeights {
 public:
  void Add(const std::string& name, const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = 0.5f * Fraction(random_);
    tensors_[name] = {"F32", shape, Bytes(numbers)};
  }
  void AddEncoder(const EncoderOptions& options) {
    const auto encoder = MakeEncoder(options);
    for (const Parameter& parameter : encoder->parameters().list) Add("encoder." + parameter.name, parameter.shape);
  }
  void AddOnes(const std::string& name, int64_t count) {
    tensors_[name] = {"F32", {count}, Bytes(std::vector<float>(static_cast<std::size_t>(count), 1.0f))};
  }
  void Write(const std::string& folder, const nlohmann::json& config) const {
    WriteTensors(folder + "/model.safetensors", tensors_);
    std::ofstream(folder + "/config.json") << config;
  }

 private:
  std::map<std::string, Stored> tensors_;
  std::mt19937_64 random_{29};
};

// A forecast by a causal encoder, or classes of whole sequences by one that reads both ways.
inline SeriesModel KeepSeriesModel(const std::string& folder, const BitsEncoder& made) {
  EncoderOptions o = made.options;
  o.max_distance = o.max_len;  // as these models have it
  const bool forecasts = o.causal;
  const int64_t features = KeptModelRows::kFeatures, outputs = forecasts ? 2 : KeptModelRows::kClasses;
  const nlohmann::json ones = {1.0, 1.0, 1.0}, none = nlohmann::json::array();
  const nlohmann::json form = {{"goal", forecasts ? "forecast" : "classification"},
                               {"target", forecasts ? "a" : "y"},
                               {"sequence", "id"},
                               {"time", ""},
                               {"features", {"a", "b", "c"}},
                               {"classes", forecasts ? none : nlohmann::json{"0", "1", "2", "3", "4"}},
                               {"each_step", forecasts},
                               {"has_times", false},
                               {"has_dates", false},
                               {"context", o.max_len},
                               {"horizon", 2},
                               {"longest", o.max_len},
                               {"mean", {0.25, -0.5, 0.0}},
                               {"deviation", {0.75, 1.0, 1.5}},
                               {"change", ones},
                               {"target_mean", 0.5},
                               {"target_deviation", 1.0},
                               {"target_scale", 0.7},
                               {"typical_step", 1.0}};
  const nlohmann::json network = {{"encoder", o.encoder},
                                  {"position", o.position},
                                  {"causal", o.causal},
                                  {"symbols", 0},
                                  {"features", forecasts ? 2 * features : features},
                                  {"outputs", outputs},
                                  {"pooled", !forecasts},
                                  {"layers", o.layers},
                                  {"heads", o.heads},
                                  {"width", o.width},
                                  {"ffn_width", o.ffn_width},
                                  {"query_key_norm", "none"},
                                  {"longest", o.max_len}};
  const nlohmann::json bounds = forecasts ? nlohmann::json{-1.0, -1.0} : none;
  KeptWeights weights;
  weights.Add("input.weight", {o.width, forecasts ? 2 * features : features}), weights.Add("input.bias", {o.width});
  weights.AddEncoder(o);
  weights.Add("head.weight", {outputs, o.width}), weights.Add("head.bias", {outputs});
  if (forecasts) weights.AddOnes("levels", features);
  weights.Write(folder, {{"format", 1},
                         {"kind", "table"},
                         {"name", made.name},
                         {"form", form},
                         {"network", network},
                         {"low", bounds},
                         {"high", bounds}});
  return SeriesModel(folder);
}

// A language model of four characters by a causal encoder.
inline CharacterModel KeepCharacterModel(const std::string& folder, const BitsEncoder& made) {
  const EncoderOptions& o = made.options;
  const nlohmann::json model = {{"encoder", o.encoder},
                                {"position", o.position},
                                {"objective", "causal"},
                                {"layers", o.layers},
                                {"heads", o.heads},
                                {"width", o.width},
                                {"context", o.max_len},
                                {"ffn_width", o.ffn_width},
                                {"max_distance", o.max_distance},
                                {"bias", o.bias},
                                {"tied", false}};
  KeptWeights weights;
  weights.Add("embedding.weight", {4, o.width}), weights.AddEncoder(o), weights.Add("head.weight", {4, o.width});
  weights.Write(folder, {{"format", 1}, {"model", model}, {"vocabulary", "abcd"}});
  return CharacterModel(folder);
}

// 200 tokens of such a model.
inline std::vector<int32_t> KeptTokens() {
  std::mt19937_64 random(7);
  std::vector<int32_t> tokens(200);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 4);
  return tokens;
}

}  // namespace heed

#endif  // HEED_TESTS_INFERENCE_KEPT_MODELS_H_
