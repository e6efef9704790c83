// What the encoders that stack residual layers share; inside nn.
#ifndef HEED_NN_SRC_RESIDUAL_LAYERS_H_
#define HEED_NN_SRC_RESIDUAL_LAYERS_H_

#include <cstdint>
#include <string>

#include <ATen/ATen.h>

#include "heed/nn/dropout.h"
#include "heed/nn/encoders.h"

namespace heed::nn {

torch::nn::LayerNorm MakeLayerNorm(const EncoderOptions& options);

// Throw InvalidArgument that begins with the encoder's name.
void CheckOptions(const char* encoder, const EncoderOptions& options);
void CheckInput(const char* encoder, const at::Tensor& X, int64_t width);
void CheckCaches(const char* encoder, const LayerCaches& caches, std::size_t layers);

// Which steps are padding, [batch, steps, 1]; undefined without lengths.
at::Tensor Padding(const at::Tensor& lengths, int64_t steps);

// Zeros where there is padding. Filled, not multiplied: what stands there may be NaN.
at::Tensor Blank(const at::Tensor& X, const at::Tensor& padding);

// X + dropout(mix(norm(X))), then the same with the feed-forward sublayer;
// post-norm normalises the sums instead.
template <class Encoder, class Mix>
at::Tensor ResidualLayers(Encoder& encoder, at::Tensor X, const Mix& mix) {
  const EncoderOptions& options = encoder.options;
  const bool pre = options.norm() == Norm::kPre;
  const auto sublayer = [&](torch::nn::LayerNorm& norm, const auto& f) {
    const at::Tensor Y = drop_elements(f(pre ? norm(X) : X), options.dropout(), encoder.is_training());
    X = pre ? X + Y : norm(X + Y);
  };
  X = drop_elements(X, options.dropout(), encoder.is_training());
  for (size_t l = 0; l < encoder.norms.size(); ++l) {
    sublayer(encoder.norms[l], [&](const at::Tensor& Y) { return mix(l, Y); });
    if (!encoder.ffns.empty()) sublayer(encoder.ffn_norms[l], [&](const at::Tensor& Y) { return encoder.ffns[l](Y); });
  }
  return encoder.final_norm ? encoder.final_norm(X) : X;
}

// Names in the state dict: norm0, ffn_norm0, ffn0, ..., final_norm.
template <class Encoder>
void AddNormsAndFfns(Encoder& encoder) {
  const EncoderOptions& options = encoder.options;
  for (int64_t l = 0; l < options.layers(); ++l) {
    const std::string number = std::to_string(l);
    encoder.norms.push_back(encoder.register_module("norm" + number, MakeLayerNorm(options)));
    if (options.ffn_width() == 0) continue;
    encoder.ffn_norms.push_back(encoder.register_module("ffn_norm" + number, MakeLayerNorm(options)));
    encoder.ffns.push_back(
        encoder.register_module("ffn" + number, PositionWiseFFN(options.width(), options.ffn_width(), options.activation())));
  }
  if (options.norm() == Norm::kPre) encoder.final_norm = encoder.register_module("final_norm", MakeLayerNorm(options));
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_RESIDUAL_LAYERS_H_
