// The Transformer encoder of d2l and its block, post- or pre-norm.
#ifndef HEED_NN_TRANSFORMER_H_
#define HEED_NN_TRANSFORMER_H_

#include <cstdint>
#include <vector>

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include "heed/nn/dropout.h"
#include "heed/nn/multi_head_attention.h"

namespace heed::nn {

enum class Norm { kPost, kPre };
enum class Activation { kRelu, kGelu, kGeluTanh };  // kGelu: x * Phi(x), exact; kGeluTanh: GPT-2's approximation by tanh

torch::Tensor Activate(const torch::Tensor& X, Activation activation);

struct TransformerEncoderBlockOptions {
  TransformerEncoderBlockOptions(int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_heads)
      : num_hiddens_(num_hiddens), ffn_num_hiddens_(ffn_num_hiddens), num_heads_(num_heads) {}
  TORCH_ARG(int64_t, num_hiddens);
  TORCH_ARG(int64_t, ffn_num_hiddens);  // 0: no feed-forward half
  TORCH_ARG(int64_t, num_heads);
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(bool, bias) = false;  // of the attention's projections; the feed-forward layers always have one
  TORCH_ARG(Norm, norm) = Norm::kPost;
  TORCH_ARG(Activation, activation) = Activation::kRelu;
  TORCH_ARG(double, layer_norm_eps) = 1e-5;  // 1e-5 PyTorch, MXNet, Paddle; 1e-3 TensorFlow; 1e-6 Flax
  TORCH_ARG(Causal, causal) = Causal::kNone;
  TORCH_ARG(EmptyRow, empty_row) = EmptyRow::kZero;
  TORCH_ARG(PositionOptions, position);  // a scheme inside attention; every block has its own
  TORCH_ARG(QueryKeyNormKind, query_key_norm) = QueryKeyNormKind::kNone;
  TORCH_ARG(bool, keep_attention_weights) = false;
};

// Residual connection and layer normalisation; `ln` normalises the sum (post) or the sublayer's input (pre).
class AddNormImpl : public torch::nn::Cloneable<AddNormImpl> {
 public:
  AddNormImpl(int64_t width, double dropout, double eps);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& Y);  // ln(dropout(Y) + X)
  // ln(X + dropout(sublayer(X))) post-norm, X + dropout(sublayer(ln(X))) pre-norm.
  template <class Sublayer>
  torch::Tensor Residual(Norm norm, const torch::Tensor& X, const Sublayer& sublayer) {
    if (norm == Norm::kPost) return forward(X, sublayer(X));
    return X + dropout(sublayer(ln(X)));
  }
  torch::nn::LayerNorm ln{nullptr};
  Dropout dropout{nullptr};

 private:
  int64_t width_;
  double probability_, eps_;
};
TORCH_MODULE(AddNorm);

// dense2(activation(dense1(X))), both with bias: [.., input_width] -> [.., width]. input_width 0: width.
class PositionWiseFFNImpl : public torch::nn::Cloneable<PositionWiseFFNImpl> {
 public:
  PositionWiseFFNImpl(int64_t width, int64_t ffn_num_hiddens, Activation activation, int64_t input_width = 0);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& X);
  torch::nn::Linear dense1{nullptr}, dense2{nullptr};

 private:
  int64_t width_, ffn_num_hiddens_, input_width_;
  Activation activation_;
};
TORCH_MODULE(PositionWiseFFN);

// Submodules attention, addnorm1, ffn, addnorm2 (d2l's names). X [batch, steps, num_hiddens] -> the same shape. Vaswani et al.
// 2017, section 3.1; pre-norm: Xiong et al. 2020.
class TransformerEncoderBlockImpl : public Cloneable<TransformerEncoderBlockImpl> {
 public:
  explicit TransformerEncoderBlockImpl(TransformerEncoderBlockOptions options);
  TransformerEncoderBlockImpl(int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_heads, double dropout,
                              bool use_bias = false);  // d2l 1.0.3
  void reset() override;
  // With a cache, X follows the steps of earlier calls, and valid_lens count from the very first step; for causal blocks and
  // inference. positions and masks are those of MultiHeadAttention.
  torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& valid_lens = {}, KeyValueCache* cache = nullptr,
                        const StepPositions& positions = {}, const AttentionMasks& masks = {});

  TransformerEncoderBlockOptions options;
  MultiHeadAttention attention{nullptr};
  AddNorm addnorm1{nullptr}, addnorm2{nullptr};
  PositionWiseFFN ffn{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())},
                           {2, torch::nn::AnyValue(static_cast<KeyValueCache*>(nullptr))},
                           {3, torch::nn::AnyValue(StepPositions())}, {4, torch::nn::AnyValue(AttentionMasks())})
};
TORCH_MODULE(TransformerEncoderBlock);

// d2l's encoder: embedding * sqrt(num_hiddens), sinusoidal positions, blocks blks.block0, blks.block1, ...; one more LayerNorm,
// final_norm, follows pre-norm blocks. The embedding starts as torch::nn::Embedding does, as in the book, and outweighs the
// positions; normal_(embedding->weight, 0, 1 / sqrt(num_hiddens)) makes both equally large (docs/encoders.md).
// tokens [batch, steps] int64 -> [batch, steps, num_hiddens].
class TransformerEncoderImpl : public Cloneable<TransformerEncoderImpl> {
 public:
  TransformerEncoderImpl(int64_t vocab_size, int64_t num_blks, TransformerEncoderBlockOptions block, int64_t max_len = 1000);
  TransformerEncoderImpl(int64_t vocab_size, int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_heads, int64_t num_blks,
                         double dropout, bool use_bias = false);  // d2l 1.0.3
  void reset() override;
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& valid_lens = {});
  // Per block, [batch * num_heads, steps, steps]; empty unless keep_attention_weights.
  std::vector<torch::Tensor> attention_weights() const;

  torch::nn::Embedding embedding{nullptr};
  PositionalEncoding pos_encoding{nullptr};
  torch::nn::Sequential blks{nullptr};
  torch::nn::LayerNorm final_norm{nullptr};  // pre-norm only

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(torch::Tensor())})

 private:
  int64_t vocab_size_, num_blks_, max_len_;
  TransformerEncoderBlockOptions block_;
};
TORCH_MODULE(TransformerEncoder);

}  // namespace heed::nn

#endif  // HEED_NN_TRANSFORMER_H_
