// The Transformer decoder of d2l and its block: causal self-attention, then cross-attention to an encoder's outputs.
#ifndef HEED_NN_TRANSFORMER_DECODER_H_
#define HEED_NN_TRANSFORMER_DECODER_H_

#include <cstdint>
#include <vector>

#include "heed/nn/transformer.h"

namespace heed::nn {

struct TransformerDecoderBlockOptions {
  TransformerDecoderBlockOptions(int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_heads)
      : num_hiddens_(num_hiddens), ffn_num_hiddens_(ffn_num_hiddens), num_heads_(num_heads) {}
  TORCH_ARG(int64_t, num_hiddens);
  TORCH_ARG(int64_t, ffn_num_hiddens);  // 0: no feed-forward part
  TORCH_ARG(int64_t, num_heads);
  TORCH_ARG(int64_t, encoder_size) = 0;  // width of the encoder's outputs; 0: num_hiddens
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(bool, bias) = false;  // of the projections of both attentions; the feed-forward layers always have one
  TORCH_ARG(Norm, norm) = Norm::kPost;
  TORCH_ARG(Activation, activation) = Activation::kRelu;
  TORCH_ARG(double, layer_norm_eps) = 1e-5;
  TORCH_ARG(EmptyRow, empty_row) = EmptyRow::kZero;
  TORCH_ARG(PositionOptions, position);  // of self-attention: none, or a scheme that acts inside attention
  TORCH_ARG(QueryKeyNormKind, query_key_norm) = QueryKeyNormKind::kNone;  // of both attentions
  TORCH_ARG(bool, keep_attention_weights) = false;
};

// Keys and values of a block: of the target's steps so far, and of the encoder's outputs, projected once.
struct DecoderBlockCache {
  KeyValueCache self, cross;
};

// Submodules attention1 (causal), addnorm1, attention2 (cross), addnorm2, ffn, addnorm3 (d2l's names).
// Vaswani et al. 2017, section 3.1.
class TransformerDecoderBlockImpl : public Cloneable<TransformerDecoderBlockImpl> {
 public:
  explicit TransformerDecoderBlockImpl(TransformerDecoderBlockOptions options);
  TransformerDecoderBlockImpl(int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_heads, double dropout,
                              bool use_bias = false);
  void reset() override;

  // X [batch, n, num_hiddens], encoder_outputs [batch, m, encoder_size] -> [batch, n, num_hiddens].
  //   encoder_valid_lens, valid_lens   lengths of encoder_outputs and of X: undefined, [batch] or [batch, n]
  //   cache    X follows the steps of earlier calls, which valid_lens count too. The first call projects encoder_outputs; later
  //            calls do not read it, and it may be undefined. For inference
  torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& encoder_outputs,
                        const torch::Tensor& encoder_valid_lens = {}, const torch::Tensor& valid_lens = {},
                        DecoderBlockCache* cache = nullptr);

  TransformerDecoderBlockOptions options;
  MultiHeadAttention attention1{nullptr}, attention2{nullptr};
  AddNorm addnorm1{nullptr}, addnorm2{nullptr}, addnorm3{nullptr};
  PositionWiseFFN ffn{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(torch::Tensor())}, {3, torch::nn::AnyValue(torch::Tensor())},
                           {4, torch::nn::AnyValue(static_cast<DecoderBlockCache*>(nullptr))})

 private:
  torch::Tensor CrossAttention(const torch::Tensor& Y, const torch::Tensor& encoder_outputs,
                               const torch::Tensor& encoder_valid_lens, DecoderBlockCache* cache);
};
TORCH_MODULE(TransformerDecoderBlock);

// The caches of a decoder's blocks.
struct DecoderCache {
  std::vector<DecoderBlockCache> blocks;  // empty before the first step

  int64_t length() const { return blocks.empty() ? 0 : blocks.front().self.length(); }
  // Forgets the target's steps from `length` on and keeps the encoder's.
  void truncate(int64_t length);
  // Copies row rows[b] to batch row b, for beam search. Reorder encoder_valid_lens yourself.
  void reorder(const torch::Tensor& rows);
};

// d2l's decoder: embedding * sqrt(num_hiddens), sinusoidal positions, blocks blks.block0, blks.block1, ..., dense; one more
// LayerNorm, final_norm, follows pre-norm blocks.
class TransformerDecoderImpl : public Cloneable<TransformerDecoderImpl> {
 public:
  TransformerDecoderImpl(int64_t vocab_size, int64_t num_blks, TransformerDecoderBlockOptions block, int64_t max_len = 1000);
  TransformerDecoderImpl(int64_t vocab_size, int64_t num_hiddens, int64_t ffn_num_hiddens, int64_t num_heads, int64_t num_blks,
                         double dropout, bool use_bias = false);
  void reset() override;

  // tokens [batch, n] int64 -> logits [batch, n, vocab_size]. The other arguments are those of a block; with a cache, positions
  // continue from its length.
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& encoder_outputs,
                        const torch::Tensor& encoder_valid_lens = {}, const torch::Tensor& valid_lens = {},
                        DecoderCache* cache = nullptr);
  // Self- and cross-attention of each block in turn, [batch * num_heads, n, keys]; empty unless keep_attention_weights.
  std::vector<torch::Tensor> attention_weights() const;

  torch::nn::Embedding embedding{nullptr};
  PositionalEncoding pos_encoding{nullptr};
  torch::nn::Sequential blks{nullptr};
  torch::nn::LayerNorm final_norm{nullptr};  // pre-norm only
  torch::nn::Linear dense{nullptr};

 protected:
  FORWARD_HAS_DEFAULT_ARGS({2, torch::nn::AnyValue(torch::Tensor())}, {3, torch::nn::AnyValue(torch::Tensor())},
                           {4, torch::nn::AnyValue(static_cast<DecoderCache*>(nullptr))})

 private:
  int64_t vocab_size_, num_blks_, max_len_;
  TransformerDecoderBlockOptions block_;
};
TORCH_MODULE(TransformerDecoder);

}  // namespace heed::nn

#endif  // HEED_NN_TRANSFORMER_DECODER_H_
