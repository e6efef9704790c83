// What layers and encoders share; inside nn.
#ifndef HEED_NN_SRC_RESIDUAL_LAYERS_H_
#define HEED_NN_SRC_RESIDUAL_LAYERS_H_

#include <cstddef>
#include <cstdint>

#include <ATen/ATen.h>

#include "heed/nn/encoders.h"

namespace heed::nn {

torch::nn::LayerNorm MakeLayerNorm(int64_t width, double eps);

// Throw InvalidArgument that begins with the layer's or the encoder's name.
void CheckDropout(const char* layer, double dropout);
void CheckInput(const char* layer, const at::Tensor& X, int64_t width, const char* name = "X");  // X [batch, steps, width]
void CheckOptions(const char* encoder, const EncoderOptions& options);
// What a layer that reads in turns has of the width: all where it is causal, half where another half reads from the end.
int64_t WidthOfAWay(const char* encoder, const EncoderOptions& options);
// states: whether the encoder keeps states, else keys and values.
void CheckCaches(const char* encoder, LayerCaches& caches, std::size_t layers, bool states = false);

// Which steps are padding, [batch, steps, 1]; undefined without lengths.
at::Tensor Padding(const at::Tensor& lengths, int64_t steps);

// Zeros where there is padding. Filled, not multiplied: what stands there may be NaN.
at::Tensor Blank(const at::Tensor& X, const at::Tensor& padding);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_RESIDUAL_LAYERS_H_
