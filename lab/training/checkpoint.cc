#include "lab/training/checkpoint.h"

#include <sstream>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include "heed/error.h"
#include "heed/nn/safetensors.h"
#include "lab/training/fit.h"

namespace heed::lab {
namespace {

std::string Describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes();
  return text.str();
}

// Any encoder has at least one square matrix of the width in each layer, and a learned table has a row for each step.
void RequirePlausible(const RunConfig& config, const nn::Safetensors& weights, const std::string& path) {
  double stored = 0.0;
  for (const auto& [name, tensor] : weights.tensors) stored += static_cast<double>(tensor.numel());
  const ModelOptions& model = config.options.model;
  const double width = static_cast<double>(model.width);
  const double per_layer = width * (width + 2.0 * static_cast<double>(FeedForwardWidth(model)));
  double least = static_cast<double>(model.layers) * per_layer + width * static_cast<double>(config.vocabulary.size());
  if (model.position == "learned") least += width * static_cast<double>(model.context);
  if (least > stored) {
    throw FileError(path + ": it holds fewer weights than the model that config.json beside it describes");
  }
}

}  // namespace

void CopyTensors(const std::map<std::string, at::Tensor>& from, const NamedTensors& to, const std::string& path) {
  for (const auto& [name, target] : to) {
    const auto source = from.find(name);
    if (source == from.end()) throw FileError(fmt::format("{}: tensor '{}' is missing", path, name));
    if (source->second.sizes() != target.sizes() || source->second.scalar_type() != target.scalar_type()) {
      throw FileError(
          fmt::format("{}: tensor '{}' is {}; the model needs {}", path, name, Describe(source->second), Describe(target)));
    }
  }
  if (from.size() > to.size()) {
    std::map<std::string, at::Tensor> left = from;
    for (const auto& [name, target] : to) left.erase(name);
    throw FileError(path + ": tensor '" + left.begin()->first + "' is unknown to the model");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, target] : to) target.copy_(from.at(name));
}

void SaveCheckpoint(const RunFolder& folder, Trainer& trainer) {
  const nn::Safetensors state = trainer.State();
  RequireFinite("checkpoint of step " + std::to_string(trainer.step()),
                NamedTensors(state.tensors.begin(), state.tensors.end()));
  nn::WriteSafetensors(folder.checkpoint().string(), state.tensors, state.metadata);
  std::map<std::string, at::Tensor> weights;
  const MeansInUse means(trainer.optimizer());
  for (const auto& parameter : trainer.model()->named_parameters()) {
    weights.emplace(parameter.key(), parameter.value().detach());
  }
  nn::WriteSafetensors(folder.model().string(), weights, {{"format", "pt"}, {"step", std::to_string(trainer.step())}});
}

Trainer LoadTrainer(const RunFolder& folder, const RunConfig& config, Corpus corpus, Ranks* ranks) {
  const char* const what = "rank 0, which reads the checkpoint";
  const std::string path = folder.checkpoint().string();
  nn::Safetensors state;
  const auto read = [&] {
    state = nn::ReadSafetensors(path);
    RequirePlausible(config, state, path);
  };
  OnFirst(ranks, read, what);
  Trainer trainer(std::move(corpus), config.options, ranks);
  OnFirst(
      ranks, [&] { trainer.Restore(state, path); }, what);
  trainer.Share();
  return trainer;
}

LanguageModel LoadModel(const RunFolder& folder, nn::LengthPolicy beyond) {
  const RunConfig config = folder.ReadConfig();
  const std::string path = folder.model().string();
  const nn::Safetensors weights = nn::ReadSafetensors(path);
  RequirePlausible(config, weights, path);
  LanguageModel model(config.options.model, config.vocabulary, beyond);
  CopyTensors(weights.tensors, NamedParameters(*model), path);
  model->eval();
  return model;
}

}  // namespace heed::lab
