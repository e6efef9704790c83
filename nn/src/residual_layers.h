// What layers and encoders share; inside nn.
#ifndef HEED_NN_SRC_RESIDUAL_LAYERS_H_
#define HEED_NN_SRC_RESIDUAL_LAYERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <torch/nn/modules/container/sequential.h>

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

// d2l's valid lengths as the engine wants them: int64 lengths in 0..steps of the same shape. A step j counts if j < valid_len:
// zero, less and NaN leave none, more than `steps` leaves all, 2.5 leaves three. Undefined stays undefined. valid_lens: numbers
// of shape [batch], or [batch, queries] when queries >= 0. Throws InvalidArgument. Works on meta tensors.
at::Tensor ClampValidLens(const at::Tensor& valid_lens, const c10::SymInt& batch, const c10::SymInt& queries,
                          const c10::SymInt& steps);

// Which steps are padding, [batch, steps, 1]; undefined without lengths.
at::Tensor Padding(const at::Tensor& lengths, int64_t steps);

// Zeros where there is padding. Filled, not multiplied: what stands there may be NaN.
at::Tensor Blank(const at::Tensor& X, const at::Tensor& padding);

// [batch, steps, heads * width] -> [batch, heads, steps, width] without a copy.
inline at::Tensor SplitHeads(const at::Tensor& X, int64_t heads) {
  return X.view({X.size(0), X.size(1), heads, X.size(2) / heads}).transpose(1, 2);
}

// The inverse; also without a copy where the memory is ordered as a projection leaves it, which attention keeps.
inline at::Tensor MergeHeads(const at::Tensor& X) { return X.transpose(1, 2).flatten(2); }

// torch::nn::Sequential whose copies keep the names of its modules; LibTorch's call them 0, 1, ..., so that the names of their
// parameters fit no file of the original.
class BlockListImpl : public torch::nn::SequentialImpl {
 public:
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& device = std::nullopt) const override {
    auto copy = std::make_shared<BlockListImpl>();
    auto block = begin();
    for (const auto& child : named_children()) copy->push_back(child.key(), (block++)->clone(device));
    return copy;
  }
};

inline torch::nn::Sequential MakeBlockList() {
  std::shared_ptr<torch::nn::SequentialImpl> blocks = std::make_shared<BlockListImpl>();
  return torch::nn::Sequential(std::move(blocks));
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_RESIDUAL_LAYERS_H_
