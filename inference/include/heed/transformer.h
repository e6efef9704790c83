// The block of a Transformer encoder on plain memory, for inference.
#ifndef HEED_TRANSFORMER_H_
#define HEED_TRANSFORMER_H_

#include <cstdint>
#include <optional>

#include "heed/layers.h"
#include "heed/multi_head_attention.h"

namespace heed {

enum class Norm { kPost, kPre };

struct TransformerEncoderBlockOptions {
  MultiHeadAttentionOptions attention;  // all three inputs have the width num_hiddens
  int64_t ffn_num_hiddens = 0;          // 0: no feed-forward half
  Norm norm = Norm::kPost;
  Activation activation = Activation::kRelu;
  double layer_norm_eps = 1e-5;  // 1e-5 PyTorch, MXNet, Paddle; 1e-3 TensorFlow; 1e-6 Flax
};

// Attention, then a feed-forward network, each with a residual connection: LayerNorm(X + f(X)) post-norm, X + f(LayerNorm(X))
// pre-norm. Parameters attention.*, addnorm1.ln.*, ffn.*, addnorm2.ln.*, as in d2l. Vaswani et al. 2017, section 3.1.
class TransformerEncoderBlock {
 public:
  // Throws InvalidArgument, naming the option.
  explicit TransformerEncoderBlock(const TransformerEncoderBlockOptions& options);
  Parameters parameters();
  const MultiHeadAttention& attention() const { return attention_; }

  // Replaces X [batch, steps, num_hiddens], which must be contiguous, by the block's output. call, valid_lens, cache: see
  // MultiHeadAttention. Throws InvalidArgument before it writes X.
  void Forward(View<float, 3> X, const MultiHeadCall& call, ModelWorkspace& workspace, Executor& executor) const;
  void Forward(View<float, 3> X, const Lengths& valid_lens, KeyValueCache<float>* cache, Executor& executor) const;

 private:
  Norm norm_;
  MultiHeadAttention attention_;
  LayerNorm ln1_;
  std::optional<PositionWiseFFN> ffn_;
  std::optional<LayerNorm> ln2_;
};

}  // namespace heed

#endif  // HEED_TRANSFORMER_H_
