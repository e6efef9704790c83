#include "book/positions/scheme_table.h"

#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "book/positions/portrait.h"
#include "book/positions/scores.h"
#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

void CheckLayer(const ModelOptions& options, int64_t layer) {
  if (layer >= 0 && layer < options.layers) return;
  throw InvalidArgument("layer: " + std::to_string(layer) + " is outside 0.." + std::to_string(options.layers - 1) +
                        ", those of the model");
}

// Null for schemes on the input and for none.
std::shared_ptr<const nn::AttentionPosition> TrainedScheme(LanguageModel& model, int64_t layer) {
  CheckLayer(model->options(), layer);
  int64_t attentions = 0;
  for (const auto& module : model->modules(/*include_self=*/false)) {
    auto* attention = module->as<nn::MultiHeadAttentionImpl>();
    if (attention != nullptr && attentions++ == layer) return attention->position;
  }
  return nullptr;
}

}  // namespace

SchemeTable StartingTable(const PositionsOptions& options) {
  const at::NoGradGuard no_grad;
  const Portrait& portrait = PortraitOf(options.scheme);
  if (portrait.rows != nullptr) return portrait.rows(options);
  if (portrait.numbers == nullptr) throw InvalidArgument("scheme: '" + options.scheme + "' has no table");
  return portrait.numbers(*StartingScheme(options), options);
}

std::optional<SchemeTable> TrainedTable(LanguageModel& model, int64_t layer) {
  const at::NoGradGuard no_grad;
  const ModelOptions& trained = model->options();
  const auto scheme = TrainedScheme(model, layer);
  for (const auto& module : model->modules(/*include_self=*/false)) {
    const auto* learned = module->as<nn::LearnedPositionsImpl>();
    if (learned == nullptr) continue;
    SchemeTable table = MatrixTable(trained.position, learned->weight);
    table.trained = true;
    return table;
  }
  if (scheme == nullptr || dynamic_cast<const torch::nn::Module&>(*scheme).parameters().empty()) return std::nullopt;
  const Portrait* portrait = FindPortrait(trained.position);
  if (portrait == nullptr || portrait->numbers == nullptr) return std::nullopt;
  PositionsOptions options;
  options.scheme = trained.position;
  FitToModel(options, trained.width, trained.heads, trained.context);
  SchemeTable table = portrait->numbers(*scheme, options);
  table.trained = true;
  return table;
}

}  // namespace heed::lab
