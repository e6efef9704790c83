// Attention that embeds a sequence as weighted means of its states.
#ifndef HEED_NN_STRUCTURED_ATTENTION_H_
#define HEED_NN_STRUCTURED_ATTENTION_H_

#include <cstdint>

#include "heed/nn/multi_head_attention.h"

namespace heed::nn {

struct StructuredAttentionOptions {
  StructuredAttentionOptions(int64_t width, int64_t rows) : width_(width), rows_(rows) {}
  TORCH_ARG(int64_t, width);         // of the states, 2u in the paper
  TORCH_ARG(int64_t, rows);          // of the annotation matrix A, r in the paper
  TORCH_ARG(int64_t, hidden) = 0;    // d_a in the paper; 0: the width
  TORCH_ARG(double, dropout) = 0.0;  // of the weights, in training only
  TORCH_ARG(bool, causal) = false;   // an embedding of steps 0..i for every step i
};

// Embeds a sequence as `rows` weighted means of its states H [steps, width]:
//
//   A = softmax(W_s2 tanh(W_s1 H^T))   [rows, steps], each row over the steps (equation 6)
//   M = A H                            [rows, width] (equation 7)
//   P = ||A A^T - I||^2                squared Frobenius norm: small where rows weight few, different steps (equation 8)
//
// Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", sections 2.1 and 2.2. heed::nn::attention computes it with
// W_s2's rows as queries and one head of keys and values. Parameters W_s1.weight [hidden, width], W_s2.weight [rows, hidden].
class StructuredAttentionImpl : public torch::nn::Cloneable<StructuredAttentionImpl> {
 public:
  // Throws InvalidArgument that names the option.
  explicit StructuredAttentionImpl(StructuredAttentionOptions options);
  void reset() override;

  // H [batch, steps, width] -> M, its rows side by side: [batch, 1, rows * width], causal [batch, steps, rows * width].
  // valid_lens: undefined or [batch]: steps at and beyond a length get no weight; a length of 0 gives an embedding of 0. The
  // observer gets a query for every step.
  torch::Tensor forward(const torch::Tensor& H, const torch::Tensor& valid_lens = {});

  // The mean of P over all embeddings of at least one step in the last training forward pass; undefined before the first pass.
  // If causal, running sums give P of every step, in rows^2 numbers a step.
  torch::Tensor penalty() const;

  StructuredAttentionOptions options;
  torch::nn::Linear W_s1{nullptr}, W_s2{nullptr};
  MultiHeadAttentionImpl::Observer observer;  // as that of MultiHeadAttention

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})

 private:
  torch::Tensor scores_, lengths_;  // of the last pass in training: [batch, rows, steps], [batch]
};
TORCH_MODULE(StructuredAttention);

// The sum of the penalties of all StructuredAttention layers in a module, to add to its loss; undefined without any.
torch::Tensor AnnotationPenalty(const torch::nn::Module& module);

}  // namespace heed::nn

#endif  // HEED_NN_STRUCTURED_ATTENTION_H_
