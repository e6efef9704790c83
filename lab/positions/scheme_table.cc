#include "lab/positions/scheme_table.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>

#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

// What is to be seen of a scheme inside attention: its biases by head and offset, or its key vectors by offset.
at::Tensor TableOf(const nn::AttentionPosition& scheme) {
  const nn::AttentionTensors tensors = scheme.tensors();
  return tensors.relative_bias.defined() ? tensors.relative_bias : tensors.content_keys;
}

SchemeTable MakeTable(const std::string& scheme, bool trained, const at::Tensor& matrix) {
  const at::Tensor values = matrix.detach().to(at::kDouble).contiguous();
  const double* first = values.const_data_ptr<double>();
  return {scheme, values.size(0), values.size(1), std::vector<double>(first, first + values.numel()), trained};
}

}  // namespace

SchemeTable StartingTable(const PositionsOptions& options) {
  const at::NoGradGuard no_grad;
  at::Generator generator = at::detail::createCPUGenerator(options.seed);
  const auto random = [&](int64_t rows, double deviation) {
    return at::randn({rows, options.width}, generator, at::kFloat).mul_(deviation);
  };
  const int64_t offsets = 2 * options.max_distance + 1;
  switch (nn::ParsePositionScheme(options.scheme)) {
    case nn::PositionScheme::kLearned:
      return MakeTable(options.scheme, false, random(options.steps, 0.02));
    case nn::PositionScheme::kRelativeBias:
      return MakeTable(options.scheme, false, TableOf(*nn::RelativeBias(options.width, options.max_distance)));
    case nn::PositionScheme::kT5:
      return MakeTable(options.scheme, false,
                       TableOf(*nn::T5Bias(options.width, T5Options{options.buckets, options.max_distance})));
    case nn::PositionScheme::kShaw:
      return MakeTable(options.scheme, false, random(offsets, 1.0 / std::sqrt(static_cast<double>(options.width))));
    default:
      throw InvalidArgument("scheme: '" + options.scheme + "' trains no table");
  }
}

std::optional<SchemeTable> TrainedTable(LanguageModel& model, int64_t layer) {
  const ModelOptions& options = model->options();
  if (layer < 0 || layer >= options.layers) {
    throw InvalidArgument("layer: " + std::to_string(layer) + " is outside 0.." + std::to_string(options.layers - 1) +
                          ", those of the model");
  }
  int64_t attentions = 0;
  for (const auto& module : model->modules(/*include_self=*/false)) {
    if (auto* learned = module->as<nn::LearnedPositionsImpl>()) return MakeTable(options.position, true, learned->weight);
    auto* attention = module->as<nn::MultiHeadAttentionImpl>();
    if (attention == nullptr || attentions++ != layer) continue;
    const at::Tensor table = attention->position ? TableOf(*attention->position) : at::Tensor();
    if (!table.defined()) return std::nullopt;
    return MakeTable(options.position, true, table);
  }
  return std::nullopt;
}

}  // namespace heed::lab
