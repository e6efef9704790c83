// Schemes that add biases by offset and distance, or products of content and offset, to the scores.
#ifndef HEED_NN_SCORE_TERMS_H_
#define HEED_NN_SCORE_TERMS_H_

#include <cstdint>
#include <optional>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/attention_position.h"
#include "heed/positions.h"

namespace heed::nn {

// Adds a bias that falls linearly with the distance, -m * |key position - query position| with a slope m per head, or, unless
// symmetric, m * (key position - query position), the same under a causal mask. Press et al. 2022, "Train Short, Test Long",
// section 3.
class AlibiImpl : public torch::nn::Cloneable<AlibiImpl>, public AttentionPosition {
 public:
  explicit AlibiImpl(int64_t heads, bool symmetric = true, bool trainable = false);
  void reset() override;
  AttentionTensors tensors() const override { return {.slopes = slopes}; }
  bool symmetric() const override { return symmetric_; }
  // Casts to 16 bits leave the slopes float32, since they would round them.
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  using torch::nn::Module::to;
  torch::Tensor slopes;  // [heads] float32; a parameter if trainable, else not in the state dict

 private:
  int64_t heads_;
  bool symmetric_, trainable_;
};
TORCH_MODULE(Alibi);

// Adds one trainable number per head and offset, clipped to max_distance, to the scores; zeros at first.
class RelativeBiasImpl : public torch::nn::Cloneable<RelativeBiasImpl>, public AttentionPosition {
 public:
  RelativeBiasImpl(int64_t heads, int64_t max_distance);
  void reset() override;
  AttentionTensors tensors() const override { return {.relative_bias = relative_bias}; }
  torch::Tensor relative_bias;  // [heads, 2 * max_distance + 1]

 private:
  int64_t heads_, max_distance_;
};
TORCH_MODULE(RelativeBias);

// Adds one trainable number per bucket of offsets and head, zeros at first; `weight` has the layout of T5's
// relative_attention_bias.weight. T5 does not scale its scores: use scale(1.0) with its weights, instead of the default
// 1/sqrt(D). Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.1.
class T5BiasImpl : public torch::nn::Cloneable<T5BiasImpl>, public AttentionPosition {
 public:
  explicit T5BiasImpl(int64_t heads, T5Options options = {});
  void reset() override;
  at::Tensor table() const;  // the bias by head and offset, [heads, 2 * max_distance + 1]
  AttentionTensors tensors() const override { return {.relative_bias = table()}; }
  torch::Tensor weight;  // [buckets, heads]

 private:
  int64_t heads_;
  T5Options options_;
  at::Tensor bucket_of_offset_;  // int64 [2 * max_distance + 1]
};
TORCH_MODULE(T5Bias);

// Adds trainable vectors by clipped offset to keys and, on request, to values and queries. All heads share them; they are N(0,
// 1/sqrt(head_dim)) at first, in row max_distance + offset, offset = key position - query position. Shaw et al. 2018,
// "Self-Attention with Relative Position Representations", section 3.2; queries: He et al. 2021, "DeBERTa".
class ShawImpl : public torch::nn::Cloneable<ShawImpl>, public AttentionPosition {
 public:
  // value_dim 0: head_dim.
  ShawImpl(int64_t head_dim, int64_t max_distance, bool with_values = true, bool with_queries = false, int64_t value_dim = 0);
  void reset() override;
  AttentionTensors tensors() const override {
    return {.content_keys = keys, .content_values = values, .content_queries = queries};
  }
  torch::Tensor keys;     // [2 * max_distance + 1, head_dim]
  torch::Tensor values;   // [2 * max_distance + 1, value_dim]; undefined without values
  torch::Tensor queries;  // [2 * max_distance + 1, head_dim]; undefined without queries

 private:
  int64_t head_dim_, max_distance_, value_dim_;
  bool with_values_, with_queries_;
};
TORCH_MODULE(Shaw);

// Transformer-XL's scores: scale * ((q + u).k + (q + v).(W r)), r the sinusoidal encoding (halves) of query position - key
// position, clipped to max_distance. rotate_query adds u to the queries; v and W make the tables. Dai et al. 2019,
// "Transformer-XL", section 3.3.
class TransformerXLImpl : public torch::nn::Cloneable<TransformerXLImpl>, public AttentionPosition {
 public:
  // width: of the encoding; 0: heads * head_dim.
  TransformerXLImpl(int64_t heads, int64_t head_dim, int64_t max_distance = 512, int64_t width = 0);
  void reset() override;
  AttentionTensors tensors() const override;
  bool computes_tables() const override { return true; }
  bool turns_once() const override { return true; }
  at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const override;
  at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const override;
  // All N(0, 0.02) at first.
  torch::Tensor projection;     // W, [heads * head_dim, width]
  torch::Tensor content_bias;   // u, [heads, head_dim]
  torch::Tensor position_bias;  // v, [heads, head_dim]

 private:
  int64_t heads_, head_dim_, max_distance_, width_;
  at::Tensor encoding_;  // [2 * max_distance + 1, width] float64, by key position - query position
};
TORCH_MODULE(TransformerXL);

// DeBERTa's disentangled attention: scale * (q.k + q.(K e[c]) + k.(Q e[c])), c the bucket of query position - key position,
// scale 1/sqrt(3 head_dim) unless the call gives one. Without buckets every distance below max_distance has its own vector.
// With buckets, as in DeBERTa-v2 and v3, only distances up to buckets/2 have, and farther ones share vectors over ranges that
// grow geometrically up to max_distance. K and Q are linear layers; the authors' models with share_att_key reuse the content's.
// He et al. 2021, "DeBERTa", section 3.1.
class DebertaImpl : public torch::nn::Cloneable<DebertaImpl>, public AttentionPosition {
 public:
  // buckets: 0: none. width: of the vectors; 0: heads * head_dim.
  DebertaImpl(int64_t heads, int64_t head_dim, int64_t max_distance = 512, int64_t buckets = 0, int64_t width = 0);
  void reset() override;
  AttentionTensors tensors() const override;
  bool computes_tables() const override { return true; }
  std::optional<double> default_scale(int64_t head_dim) const override;
  torch::Tensor embeddings;  // e, [2 * (buckets, or max_distance), width], N(0, 0.02) at first
  torch::nn::Linear key_projection{nullptr}, query_projection{nullptr};  // K and Q, width -> heads * head_dim

 private:
  int64_t heads_, head_dim_, span_, width_;
  at::Tensor row_of_offset_;  // int64 [2 * max_distance + 1], by key position - query position
};
TORCH_MODULE(Deberta);

// Contextual positions: a key's position is the sum of the sigmoids of the query's scores from this key on. Adds the query
// times the table's row of that position, interpolated between two rows; positions beyond the table count as the last. See
// heed::ContextualPosition. Golovneva et al. 2024, "Contextual Position Encoding", section 4.
class CopeImpl : public torch::nn::Cloneable<CopeImpl>, public AttentionPosition {
 public:
  // max_position: the number of positions, from 0.
  explicit CopeImpl(int64_t head_dim, int64_t max_position = 64);
  void reset() override;
  AttentionTensors tensors() const override { return {.contextual_position = table}; }
  torch::Tensor table;  // [max_position, head_dim], shared by all heads; zeros at first

 private:
  int64_t head_dim_, max_position_;
};
TORCH_MODULE(Cope);

}  // namespace heed::nn

#endif  // HEED_NN_SCORE_TERMS_H_
