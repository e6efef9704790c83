#include <string>
#include <utility>

#include "residual_layers.h"
#include "sequence.h"
#include "valid_lens.h"

namespace heed::nn {
namespace {

DecomposableAttentionOptions LayerOptions(const EncoderOptions& options) {
  return DecomposableAttentionOptions(options.width(), options.heads())
      .max_distance(options.position().max_distance)
      .activation(options.activation())
      .dropout(options.dropout())
      .causal(options.causal() ? Causal::kBottomRight : Causal::kNone);
}

}  // namespace

DecomposableEncoderImpl::DecomposableEncoderImpl(EncoderOptions options_)
    : ResidualEncoder("DecomposableEncoder", std::move(options_)) {
  for (int64_t l = 0; l < options.layers(); ++l) {
    attentions.push_back(register_module("attention" + std::to_string(l), DecomposableAttention(LayerOptions(options))));
  }
  AddNormsAndFfns();
}

torch::Tensor DecomposableEncoderImpl::forward(const torch::Tensor& X, const torch::Tensor& valid_lens, int64_t) {
  CheckInput("DecomposableEncoder", X, options.width());
  const at::Tensor lengths = ClampValidLens(valid_lens, X.size(0), -1, StepsOfSequence(X.size(1)));
  const at::Tensor padding = Padding(lengths, X.size(1));
  const auto attend = [&](size_t l, const at::Tensor& Y) { return attentions[l](Y, lengths); };
  return Blank(Layers(Blank(X, padding), attend), padding);
}

torch::Tensor DecomposableEncoderImpl::step(const torch::Tensor& X, LayerCaches& caches) {
  if (!CanStep()) return SequenceEncoder::step(X, caches);
  CheckInput("DecomposableEncoder", X, options.width());
  CheckCaches("DecomposableEncoder", caches, attentions.size());
  return Layers(X, [&](size_t l, const at::Tensor& Y) { return attentions[l](Y, at::Tensor(), &caches[l]); });
}

}  // namespace heed::nn
