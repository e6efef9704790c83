#include "book/depth/stack.h"

#include <algorithm>

#include <torch/nn/functional/loss.h>

#include "heed/nn/positions.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

torch::nn::LayerNorm MakeLayerNorm(int64_t width) { return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})); }

nn::PositionOptions PositionOf(const StackOptions& options) {
  nn::PositionOptions position;
  position.scheme = nn::ParsePositionScheme(options.position);
  position.max_len = options.context;
  position.max_distance = std::max<int64_t>(options.context / 2, nn::PositionOptions().buckets / 2 + 1);
  return position;
}

nn::MultiHeadAttentionOptions AttentionOf(const StackOptions& options) {
  nn::MultiHeadAttentionOptions attention(options.width, options.heads);
  attention.causal(options.objective == Objective::kCausal ? Causal::kBottomRight : Causal::kNone);
  const nn::PositionOptions position = PositionOf(options);
  if (!nn::AddsToInput(position.scheme)) attention.position(position);
  return attention;
}

}  // namespace

StackLayerImpl::StackLayerImpl(const StackOptions& options) : variant_(options.variant) {
  attention = register_module("attention", nn::MultiHeadAttention(AttentionOf(options)));
  const bool norms = variant_.norm != StackNorm::kNone;
  if (norms) attention_norm = register_module("attention_norm", MakeLayerNorm(options.width));
  if (!variant_.feed_forward) return;
  ffn = register_module("ffn", nn::PositionWiseFFN(options.width, 4 * options.width, nn::Activation::kGelu));
  if (norms) ffn_norm = register_module("ffn_norm", MakeLayerNorm(options.width));
}

at::Tensor StackLayerImpl::forward(const at::Tensor& X) {
  const auto sublayer = [this](const at::Tensor& input, torch::nn::LayerNorm& norm, const auto& f) {
    const at::Tensor left = f(variant_.norm == StackNorm::kPre ? norm(input) : input);
    at::Tensor output = variant_.residual ? input + left : left;
    return variant_.norm == StackNorm::kPost ? norm(output) : output;
  };
  at::Tensor Y = sublayer(X, attention_norm, [this](const at::Tensor& Z) { return attention(Z, Z, Z); });
  return ffn ? sublayer(Y, ffn_norm, [this](const at::Tensor& Z) { return ffn(Z); }) : Y;
}

StackModelImpl::StackModelImpl(const StackOptions& options_, uint64_t seed) : options(options_) {
  const int64_t width = options.width;
  embedding = register_module("embedding", torch::nn::Embedding(options.symbols, width));
  const nn::PositionOptions position = PositionOf(options);
  if (position.scheme == nn::PositionScheme::kSinusoidal) {
    sinusoidal = register_module("sinusoidal", nn::PositionalEncoding(width, 0.0, options.context));
  } else if (position.scheme == nn::PositionScheme::kLearned) {
    learned = register_module("learned", nn::LearnedPositions(width, 0.0, options.context));
  }
  for (int64_t l = 0; l < options.layers; ++l) {
    layers.push_back(register_module("layer" + std::to_string(l), StackLayer(options)));
  }
  if (options.variant.norm == StackNorm::kPre) final_norm = register_module("final_norm", MakeLayerNorm(width));
  head = register_module("head", torch::nn::Linear(torch::nn::LinearOptions(width, options.symbols).bias(false)));
  InitialiseByInputs(*this, seed);
}

at::Tensor StackModelImpl::forward(const at::Tensor& tokens, std::vector<at::Tensor>* states) {
  at::Tensor X = embedding(tokens);
  if (sinusoidal) X = sinusoidal(X);
  if (learned) X = learned(X);
  if (states != nullptr) states->push_back(X);
  for (StackLayer& layer : layers) {
    X = layer(X);
    if (states != nullptr) states->push_back(X);
  }
  return head(final_norm ? final_norm(X) : X);
}

at::Tensor StackModelImpl::Loss(const Batch& batch, std::vector<at::Tensor>* states) {
  at::Tensor logits = forward(batch.inputs, states).flatten(0, 1);
  if (batch.rows.defined()) logits = logits.index_select(0, batch.rows);
  return torch::nn::functional::cross_entropy(logits, batch.targets);
}

}  // namespace heed::lab
