// Attention without recurrence and value projections, which aligns steps, then compares them.
#ifndef HEED_NN_DECOMPOSABLE_ATTENTION_H_
#define HEED_NN_DECOMPOSABLE_ATTENTION_H_

#include <cstdint>

#include "heed/nn/cache.h"
#include "heed/nn/transformer.h"

namespace heed::nn {

struct DecomposableAttentionOptions {
  DecomposableAttentionOptions(int64_t width, int64_t heads) : width_(width), heads_(heads) {}
  TORCH_ARG(int64_t, width);
  TORCH_ARG(int64_t, heads);                              // 1 in the paper; divides the width
  TORCH_ARG(int64_t, max_distance) = 10;                  // longer distances count as this one; 10 in the paper
  TORCH_ARG(Activation, activation) = Activation::kRelu;  // of both feed-forward networks
  TORCH_ARG(double, dropout) = 0.0;                       // of the weights, in training only
  TORCH_ARG(Causal, causal) = Causal::kNone;
};

// With x_i the steps, F and G feed-forward networks and d one trained number per head and clipped distance:
//
//   align     a_i = sum_j softmax_j(F(x_i) . F(x_j) + d[j - i]) x_j,   head by head
//   compare   y_i = G([x_i, a_i])
//
// Parikh et al. 2016, "A Decomposable Attention Model for Natural Language Inference", sections 3.4 (intra-sentence attention)
// and 3.2 (compare). As there, nothing divides scores by sqrt(head width). The paper has one head; several heads divide the
// columns of F(x) and x.
//
// Parameters attend.dense1, attend.dense2 (F), position.relative_bias (d, zeros at first), compare.dense1, compare.dense2 (G).
class DecomposableAttentionImpl : public torch::nn::Cloneable<DecomposableAttentionImpl> {
 public:
  // Throws InvalidArgument that names the option.
  explicit DecomposableAttentionImpl(DecomposableAttentionOptions options);
  void reset() override;

  // X [batch, steps, width] -> the same shape. valid_lens: undefined, [batch] or [batch, steps], as in MultiHeadAttention. With
  // a cache, X follows the steps of earlier calls; for inference and Causal::kBottomRight.
  torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& valid_lens = {}, KeyValueCache* cache = nullptr);

  DecomposableAttentionOptions options;
  PositionWiseFFN attend{nullptr}, compare{nullptr};
  RelativeBias position{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())},
                           {2, torch::nn::AnyValue(static_cast<KeyValueCache*>(nullptr))})
};
TORCH_MODULE(DecomposableAttention);

}  // namespace heed::nn

#endif  // HEED_NN_DECOMPOSABLE_ATTENTION_H_
