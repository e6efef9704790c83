// Sequence encoders in linear time around heed/nn/linear_attention.h: linear attention, retention, Mamba-2, gated DeltaNet.
#ifndef HEED_NN_LINEAR_ENCODERS_H_
#define HEED_NN_LINEAR_ENCODERS_H_

#include <cstdint>
#include <string>
#include <utility>

#include <torch/nn/modules/linear.h>

#include "heed/nn/attention_models.h"
#include "heed/nn/cache.h"
#include "heed/nn/rotations.h"

namespace heed::nn {

// A causal mixing layer in time linear in the steps. With [z, v, k, q, a, b] = in_proj(x), less the parts that a kind does not
// use, and y the linear attention or gated delta rule of each head's q, k and v:
//
//   kind           q, k, v                                   decay and weight of a step             input of out_proj
//   "linear"       elu + 1 of q and k                        none; divided by the sum of weights    y
//   "retention"    q and k turned by position, k d^-1/2      log(1 - 2^(-5-h)) of head h            rms(y) silu(z)
//   "mamba2"       silu(conv), one q and k for all heads     dt = softplus(a + dt_bias); -e^A_log   rms((y + D v) silu(z))
//                                                            dt, and v dt for v
//   "gated-delta"  silu(conv), q and k of length 1,          -e^A_log softplus(a + dt_bias);        rms(y) silu(z)
//                  q d^-1/2                                  beta = sigmoid(b)
//
// conv is a causal convolution of each column over four steps; d is the width of a head's keys. rms divides a head's columns
// (for Mamba-2 all columns) by their root mean square and multiplies them by norm_weight. A head of Mamba-2 has twice the
// columns of the others, and q and k are as wide as its v. Retention rotates as xPos does, without xPos's scale: the head's
// decay replaces it.
//
// in_proj, out_proj and the convolution start as PyTorch's do, A_log as log(1), log(2), .. by head, dt_bias so that dt lies
// between 0.001 and 0.1 over the heads, the rest as ones.
//
// Katharopoulos et al. 2020, "Transformers are RNNs", 3.2; Sun et al. 2023, "Retentive Network", 2.1 and 2.2; Dao and Gu 2024,
// "Transformers are SSMs", 7; Yang, Kautz and Hatamizadeh 2025, "Gated Delta Networks", 3.4.
class LinearMixerImpl : public torch::nn::Cloneable<LinearMixerImpl> {
 public:
  // Widths of x and of the output; heads divide hidden_size. bias: of in_proj, out_proj and the convolution. Throws
  // InvalidArgument.
  LinearMixerImpl(std::string kind, int64_t input_size, int64_t hidden_size, int64_t heads, bool bias = false);
  void reset() override;

  // X [batch, steps, input_size] -> [batch, steps, hidden_size]. state: X follows its steps, and the call adds X to it; for
  // inference. Throws InvalidArgument for other shapes, a state of other sizes and where a gradient would be recorded; the
  // state then stays unchanged.
  torch::Tensor forward(const torch::Tensor& X, LinearState* state = nullptr);

  std::string kind;
  int64_t input_size, hidden_size, heads;
  bool bias;
  torch::nn::Linear in_proj{nullptr}, out_proj{nullptr};
  torch::Tensor conv_weight, conv_bias;  // [columns of v, k, q, 4], the last number multiplies the step itself; [columns]
  torch::Tensor A_log, dt_bias, D;       // [heads]
  torch::Tensor norm_weight;             // [width of a head], for Mamba-2 [2 * hidden_size]

 private:
  // inputs: columns of the three steps before, replaced by the last three; undefined at the first step, null without a state.
  at::Tensor Convolved(const at::Tensor& columns, at::Tensor* inputs) const;

  Rotary rotary_{nullptr};
};
TORCH_MODULE(LinearMixer);

extern template class OneWayEncoder<LinearMixer>;

// The kind is options.mixer(). Unless causal, heads divide half of the width. A causal encoder's step keeps a state for each
// layer (LayerCaches::state).
class LinearEncoderImpl : public OneWayEncoder<LinearMixer> {
 public:
  explicit LinearEncoderImpl(EncoderOptions options) : OneWayEncoder("LinearEncoder", std::move(options)) {}
  bool CanStep() const override { return options.causal(); }
  torch::Tensor step(const torch::Tensor& X, LayerCaches& caches) override;
};
TORCH_MODULE(LinearEncoder);

}  // namespace heed::nn

#endif  // HEED_NN_LINEAR_ENCODERS_H_
