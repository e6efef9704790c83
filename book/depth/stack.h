// A model of characters around a stack of attention layers in which residual connections, LayerNorm and the feed-forward
// sublayer can each be left out.
#ifndef HEED_BOOK_DEPTH_STACK_H_
#define HEED_BOOK_DEPTH_STACK_H_

#include <cstdint>
#include <string>
#include <vector>

#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "book/depth/options.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/transformer.h"
#include "lab/data/batches.h"

namespace heed::lab {

struct StackOptions {
  StackVariant variant;
  int64_t layers = 1, width = 32, heads = 4;
  int64_t context = 32;                      // rows of a learned table; relative offsets are clipped at half of it
  std::string position = "none";             // of nn::PositionSchemeNames()
  Objective objective = Objective::kCausal;  // kCausal: a token sees those before it; kMasked: all
  int64_t symbols = 2;                       // tokens are 0 .. symbols - 1
};

// One of the layers. forward keeps the order of nn::TransformerEncoderBlock: attention, then a feed-forward sublayer of four
// times the width with GELU.
class StackLayerImpl : public torch::nn::Module {
 public:
  explicit StackLayerImpl(const StackOptions& options);
  at::Tensor forward(const at::Tensor& X);  // [batch, steps, width] -> the same

  nn::MultiHeadAttention attention{nullptr};
  nn::PositionWiseFFN ffn{nullptr};                                 // absent without feed-forward
  torch::nn::LayerNorm attention_norm{nullptr}, ffn_norm{nullptr};  // absent without LayerNorm

 private:
  StackVariant variant_;
};
TORCH_MODULE(StackLayer);

// Embedding and encodings of the input, layers, for kPre a final LayerNorm, head. Starts by InitialiseByInputs: everything is
// drawn from the seed alone.
class StackModelImpl : public torch::nn::Module {
 public:
  StackModelImpl(const StackOptions& options, uint64_t seed);

  // tokens int64 [batch, steps] -> [batch, steps, symbols]. Where `states` is given, it becomes the input of the first layer
  // and the output of every layer, [batch, steps, width] each, of which autograd knows.
  at::Tensor forward(const at::Tensor& tokens, std::vector<at::Tensor>* states = nullptr);
  // Mean cross-entropy over the batch's predictions, in nats.
  at::Tensor Loss(const Batch& batch, std::vector<at::Tensor>* states = nullptr);

  StackOptions options;
  torch::nn::Embedding embedding{nullptr};
  nn::PositionalEncoding sinusoidal{nullptr};
  nn::LearnedPositions learned{nullptr};
  std::vector<StackLayer> layers;
  torch::nn::LayerNorm final_norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(StackModel);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_STACK_H_
