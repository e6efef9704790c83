// Sequence encoders behind one interface, for comparisons: [batch, steps, width] -> [batch, steps, width].
#ifndef HEED_NN_ENCODERS_H_
#define HEED_NN_ENCODERS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/rnn.h>

#include "heed/nn/decomposable_attention.h"
#include "heed/nn/transformer.h"

namespace heed::nn {

// A stack of layers that mixes information between steps. Every layer is a residual block around one mixing sublayer
// (attention, convolution or recurrence) and, unless its width is 0, a feed-forward sublayer. Dropout acts on the input (after
// positions are added), on each sublayer's output, and on the attention weights; in training only.
//
// Parameters start as those of PyTorch's modules do (Linear, Conv1d: uniform in +-1/sqrt(fan in); recurrent cells: uniform in
// +-1/sqrt(hidden size); LayerNorm: ones and zeros), those of positional schemes as heed/nn/positions.h says.
class SequenceEncoder : public torch::nn::Module {
 public:
  // X [batch, steps, width]; valid_lens undefined or int64 [batch]: steps at and beyond a row's length do not influence the
  // others, and their outputs are 0. offset: position of the first step, for positions that are added to the input.
  virtual torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& valid_lens = {}, int64_t offset = 0) = 0;

  // Whether the encoder has `step`: causal encoders of attention without recurrence or in linear time do.
  virtual bool CanStep() const { return false; }
  // The outputs of X [batch, n, width], the steps after those of earlier calls with the same caches; equal to rounding to
  // forward on all steps at once. For inference. Throws InvalidArgument where CanStep is false. States of encoders in linear
  // time do not grow with the steps.
  virtual torch::Tensor step(const torch::Tensor& X, LayerCaches& caches);
};

struct EncoderOptions {
  explicit EncoderOptions(int64_t width) : width_(width) {}
  TORCH_ARG(int64_t, width);
  TORCH_ARG(int64_t, layers) = 2;
  TORCH_ARG(int64_t, ffn_width) = 0;  // 0: no feed-forward sublayer
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(bool, causal) = false;     // step i sees steps 0..i only
  TORCH_ARG(Norm, norm) = Norm::kPre;  // pre-norm ends with a final LayerNorm
  TORCH_ARG(Activation, activation) = Activation::kGelu;
  TORCH_ARG(double, layer_norm_eps) = 1e-5;
  TORCH_ARG(bool, bias) = false;  // of the mixing sublayer
  // of attention, in all encoders that have it
  TORCH_ARG(int64_t, heads) = 4;
  // For AttentionEncoder: any scheme; encodings of the input are added before the first layer. The decomposable encoder reads
  // max_distance alone; the other encoders take no scheme.
  TORCH_ARG(PositionOptions, position);
  TORCH_ARG(QueryKeyNormKind, query_key_norm) = QueryKeyNormKind::kNone;  // of AttentionEncoder alone
  TORCH_ARG(bool, keep_attention_weights) = false;
  // convolution
  TORCH_ARG(int64_t, kernel) = 3;    // odd when centred
  TORCH_ARG(bool, dilated) = false;  // layer l dilated by kernel^l
  // recurrence
  TORCH_ARG(std::string, cell) = "gru";  // "rnn", "gru", "lstm"; unless causal, half of the width reads backwards
  // linear time, see heed/nn/linear_encoders.h
  TORCH_ARG(std::string, mixer) = "linear";  // "linear", "retention", "mamba2", "gated-delta"
};

// The norms and feed-forward sublayers of all encoders but AttentionEncoder, around their own mixing sublayers.
// Submodules norm0, ffn_norm0, ffn0, norm1, ..., final_norm.
class ResidualEncoder : public SequenceEncoder {
 public:
  torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& valid_lens = {}, int64_t offset = 0) override;

  EncoderOptions options;
  std::vector<torch::nn::LayerNorm> norms, ffn_norms;
  std::vector<PositionWiseFFN> ffns;
  torch::nn::LayerNorm final_norm{nullptr};

 protected:
  // Throws InvalidArgument that begins with the encoder's name. in_parts: whether it computes tokens of a SequencePart.
  ResidualEncoder(const char* name, EncoderOptions options, bool in_parts = false);
  // Which steps count, [batch], and which are padding, [batch, steps, 1]; undefined where all count.
  struct Rows {
    torch::Tensor lengths, padding;
  };
  // What a layer's mixing sublayer makes of X.
  virtual torch::Tensor Mixed(std::size_t /*layer*/, const torch::Tensor& X, const Rows& /*rows*/) { return X; }
  // Registers the norms and feed-forward sublayers of all layers, after the mixing submodules.
  void AddNormsAndFfns();
  // X + dropout(mix(l, norm(X))), then the same with the feed-forward sublayer, for every layer l; post-norm normalises the
  // sums instead.
  using Mix = std::function<torch::Tensor(std::size_t layer, const torch::Tensor& X)>;
  torch::Tensor Layers(torch::Tensor X, const Mix& mix);

  const char* name_;

 private:
  bool in_parts_;
};

class AttentionEncoderImpl : public SequenceEncoder {
 public:
  explicit AttentionEncoderImpl(EncoderOptions options);
  torch::Tensor forward(const torch::Tensor& X, const torch::Tensor& valid_lens = {}, int64_t offset = 0) override;
  bool CanStep() const override { return options.causal(); }
  torch::Tensor step(const torch::Tensor& X, LayerCaches& caches) override;
  std::vector<torch::Tensor> attention_weights() const;  // per layer [batch * heads, steps, steps]

  EncoderOptions options;
  PositionalEncoding sinusoidal{nullptr};
  LearnedPositions learned{nullptr};
  std::vector<TransformerEncoderBlock> blocks;
  torch::nn::LayerNorm final_norm{nullptr};

 private:
  torch::Tensor Input(const torch::Tensor& X, int64_t offset);
};
TORCH_MODULE(AttentionEncoder);

// Layers of activation(Conv1d): centred (padding (kernel-1)/2 on both sides) or causal (kernel-1 on the left), times the
// dilation. Padded steps enter every convolution as zeros, as if the sequence ended there.
class ConvolutionEncoderImpl : public ResidualEncoder {
 public:
  explicit ConvolutionEncoderImpl(EncoderOptions options);
  torch::Tensor Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) override;

  std::vector<torch::nn::Conv1d> convolutions;  // [width, width, kernel] each
};
TORCH_MODULE(ConvolutionEncoder);

class RecurrentEncoderImpl : public ResidualEncoder {
 public:
  explicit RecurrentEncoderImpl(EncoderOptions options);
  torch::Tensor Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) override;

  std::vector<std::shared_ptr<torch::nn::Module>> cells;  // torch::nn::RNN, GRU or LSTM of one layer, batch first
};
TORCH_MODULE(RecurrentEncoder);

// Attention over recurrent states: with H = cell(X), a layer computes H + MultiHeadAttention(H, H, H), without further
// positions. Lin et al. 2017, "A Structured Self-attentive Sentence Embedding", section 2, also attends to the states of a
// recurrent layer from outside the recurrence; Cheng et al. 2016, "Long Short-Term Memory-Networks for Machine Reading",
// attends within it, so its steps cannot run in parallel.
class RecurrentAttentionEncoderImpl : public ResidualEncoder {
 public:
  explicit RecurrentAttentionEncoderImpl(EncoderOptions options);
  torch::Tensor Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) override;

  std::vector<std::shared_ptr<torch::nn::Module>> cells;  // as in RecurrentEncoder
  std::vector<MultiHeadAttention> attentions;
};
TORCH_MODULE(RecurrentAttentionEncoder);

// Layers of DecomposableAttention, without recurrence or positional encoding; its bias by distance tells steps apart.
class DecomposableEncoderImpl : public ResidualEncoder {
 public:
  explicit DecomposableEncoderImpl(EncoderOptions options);
  torch::Tensor Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) override;
  bool CanStep() const override { return options.causal(); }
  torch::Tensor step(const torch::Tensor& X, LayerCaches& caches) override;

  std::vector<DecomposableAttention> attentions;
};
TORCH_MODULE(DecomposableEncoder);

// "attention", "convolution", "dilated", "rnn", "gru", "lstm", "gru-attention" (a GRU with attention on top), "decomposable",
// those of heed/nn/attention_models.h: "self-attentive", "lstmn", "intra-decoder", and those of heed/nn/linear_encoders.h:
// "linear", "retention", "mamba2", "gated-delta".
std::vector<std::string> EncoderNames();
// Whether the heads of an encoder divide its width. Throws InvalidArgument, listing the names.
bool HasHeads(const std::string& encoder);
// Makes the encoder, with the options that the name decides. Throws InvalidArgument.
std::shared_ptr<SequenceEncoder> MakeEncoder(const std::string& name, EncoderOptions options);

}  // namespace heed::nn

#endif  // HEED_NN_ENCODERS_H_
