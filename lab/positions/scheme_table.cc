#include "lab/positions/scheme_table.h"

#include <string>
#include <vector>

#include <ATen/core/grad_mode.h>

#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "lab/positions/portrait.h"
#include "lab/positions/scores.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

void CheckLayer(const ModelOptions& options, int64_t layer) {
  if (layer >= 0 && layer < options.layers) return;
  throw InvalidArgument("layer: " + std::to_string(layer) + " is outside 0.." + std::to_string(options.layers - 1) +
                        ", those of the model");
}

SchemeTable RowsOf(const nn::LearnedPositionsImpl& learned, bool trained) {
  SchemeTable table = MatrixTable("learned", learned.weight);
  table.trained = trained;
  return table;
}

}  // namespace

SchemeTable StartingTable(const PositionsOptions& options) {
  const at::NoGradGuard no_grad;
  const Portrait& portrait = PortraitOf(options.scheme);
  if (portrait.scheme == nn::PositionScheme::kLearned) {
    const SeededGenerator seeded(options.seed);
    return RowsOf(*nn::LearnedPositions(options.width, 0.0, options.steps), /*trained=*/false);
  }
  if (portrait.numbers == nullptr) throw InvalidArgument("scheme: '" + options.scheme + "' has no table");
  return portrait.numbers(*StartingScheme(options), options);
}

std::shared_ptr<const nn::AttentionPosition> TrainedScheme(LanguageModel& model, int64_t layer) {
  CheckLayer(model->options(), layer);
  int64_t attentions = 0;
  for (const auto& module : model->modules(/*include_self=*/false)) {
    auto* attention = module->as<nn::MultiHeadAttentionImpl>();
    if (attention != nullptr && attentions++ == layer) return attention->position;
  }
  return nullptr;
}

std::optional<SchemeTable> TrainedTable(LanguageModel& model, int64_t layer) {
  const at::NoGradGuard no_grad;
  const ModelOptions& trained = model->options();
  const auto scheme = TrainedScheme(model, layer);
  for (const auto& module : model->modules(/*include_self=*/false)) {
    if (const auto* learned = module->as<nn::LearnedPositionsImpl>()) return RowsOf(*learned, /*trained=*/true);
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

PositionsCheck CheckPositions(const PositionsOptions& options, const std::optional<SchemeTable>& table,
                              const std::shared_ptr<const nn::AttentionPosition>& trained) {
  const at::NoGradGuard no_grad;
  CheckPositionsOptions(options);
  const Portrait& portrait = PortraitOf(options.scheme);
  PositionsCheck check;
  if (portrait.turning) check.rotation = CheckRotation(options);
  if (portrait.identities != nullptr) check.identities = portrait.identities(MakeProbe(options, trained));
  if (portrait.scheme == nn::PositionScheme::kLearned)
    check.identities = LearnedIdentities(table ? *table : StartingTable(options));
  return check;
}

}  // namespace heed::lab
