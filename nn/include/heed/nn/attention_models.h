// Sequence encoders with the attention of papers before the Transformer; heed/nn/encoders.h has DecomposableEncoder.
#ifndef HEED_NN_ATTENTION_MODELS_H_
#define HEED_NN_ATTENTION_MODELS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "heed/nn/encoders.h"
#include "heed/nn/structured_attention.h"

namespace heed::nn {

// Adds the sentence embedding of Lin et al. 2017 (heed/nn/structured_attention.h) to every step. With H the states of an LSTM
// (section 2.1, equations 2 to 4) and M the embedding of `heads` rows, a layer computes
//
//   H + [W_1 M_1, W_2 M_2, ...],   W_r from the width to width / heads
//
// More rows add parameters to StructuredAttention's W_s2 alone. Unless causal, the sequence has one M, and a layer takes time
// linear in its steps; if causal, step i has the M of steps 0..i. Submodules cell0, attention0, combine0 (all W_r, stacked),
// ...
class SelfAttentiveEncoderImpl : public ResidualEncoder {
 public:
  explicit SelfAttentiveEncoderImpl(EncoderOptions options);
  torch::Tensor Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) override;

  // A layer's output for the states of its cell, [batch, steps, width] -> the same shape.
  torch::Tensor mix(std::size_t layer, const torch::Tensor& H, const torch::Tensor& lengths = {});

  std::vector<std::shared_ptr<torch::nn::Module>> cells;  // torch::nn::LSTM of one layer, batch first
  std::vector<StructuredAttention> attentions;
  std::vector<torch::nn::Linear> combines;
};
TORCH_MODULE(SelfAttentiveEncoder);

// Long short-term memory-network: an LSTM that keeps all past hidden states h_i and cells c_i. With x_t the input,
//
//   a_i = v . tanh(W_h h_i + W_x x_t + W_g g_(t-1)),   s = softmax(a) over i < t   (equations 4 and 5)
//   g_t = sum_i s_i h_i,   m_t = sum_i s_i c_i                                      (equation 6; g and m are 0 at first)
//   i, f, o, z = sigmoid, sigmoid, sigmoid and tanh of W [g_t, x_t]                 (equation 7)
//   c_t = f * m_t + i * z,   h_t = o * tanh(c_t)                                    (equations 8 and 9)
//
// Cheng et al. 2016, "Long Short-Term Memory-Networks for Machine Reading", section 3.2; the paper writes h~ and c~ for g and
// m. A step takes time linear in the earlier steps; steps run one after the other. For gradients the layer keeps W_h h, h and c
// of each step and computes the weights anew. Neither forward-mode derivatives nor functorch's transforms. All parameters start
// uniform in +-1/sqrt(hidden_size).
class LstmnImpl : public torch::nn::Cloneable<LstmnImpl> {
 public:
  // Sizes of x and of h. Throws InvalidArgument.
  LstmnImpl(int64_t input_size, int64_t hidden_size, bool bias = true);
  void reset() override;

  // X [batch, steps, input_size] -> the states h [batch, steps, hidden_size].
  torch::Tensor forward(const torch::Tensor& X);

  int64_t input_size, hidden_size;
  bool bias;
  torch::Tensor score_state, score_input, score_summary, score;  // W_h, W_x, W_g, v
  torch::Tensor gates, gates_bias;                               // W of [g, x] in the order i, f, z, o; undefined without bias
};
TORCH_MODULE(Lstmn);

// An LSTM whose states attend to those before them. With h_t the states,
//
//   e_tj = h_t . W h_j,   a_t = softmax(e_t) over j < t   (equations 6 and 7)
//   d_t = sum_j a_tj h_j                                   (equation 8; 0 at first)
//   y_t = U [h_t, d_t]                                     (as in equation 9, without a source)
//
// Paulus et al. 2018, "A Deep Reinforced Model for Abstractive Summarization", section 2.2. heed::nn::attention computes it
// with one head and stores no matrix of scores. Submodules cell, attend (W), combine (U).
class IntraDecoderImpl : public torch::nn::Cloneable<IntraDecoderImpl> {
 public:
  // Sizes of the steps, and of h and y. Throws InvalidArgument.
  IntraDecoderImpl(int64_t input_size, int64_t hidden_size, bool bias = true);
  void reset() override;

  // X [batch, steps, input_size] -> y [batch, steps, hidden_size].
  torch::Tensor forward(const torch::Tensor& X);

  int64_t input_size, hidden_size;
  bool bias;  // of the LSTM and of U
  torch::nn::LSTM cell{nullptr};
  torch::nn::Linear attend{nullptr}, combine{nullptr};
};
TORCH_MODULE(IntraDecoder);

// Layers around a causal module: reader0, ..., and, unless the encoder is causal, reader0_reverse, ..., which read from the end
// of each row, with half of the width each.
template <class Reader>
class OneWayEncoder : public ResidualEncoder {
 public:
  // Throws InvalidArgument that begins with the encoder's name.
  OneWayEncoder(const char* name, EncoderOptions options);
  torch::Tensor Mixed(std::size_t layer, const torch::Tensor& X, const Rows& rows) override;

  std::vector<Reader> readers, reverse_readers;
};
extern template class OneWayEncoder<Lstmn>;
extern template class OneWayEncoder<IntraDecoder>;

class LstmnEncoderImpl : public OneWayEncoder<Lstmn> {
 public:
  explicit LstmnEncoderImpl(EncoderOptions options) : OneWayEncoder("LstmnEncoder", std::move(options)) {}
};
TORCH_MODULE(LstmnEncoder);

class IntraDecoderEncoderImpl : public OneWayEncoder<IntraDecoder> {
 public:
  explicit IntraDecoderEncoderImpl(EncoderOptions options) : OneWayEncoder("IntraDecoderEncoder", std::move(options)) {}
};
TORCH_MODULE(IntraDecoderEncoder);

}  // namespace heed::nn

#endif  // HEED_NN_ATTENTION_MODELS_H_
