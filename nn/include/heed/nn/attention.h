// Attention as a differentiable function of tensors.
#ifndef HEED_NN_ATTENTION_H_
#define HEED_NN_ATTENTION_H_

#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#include "heed/attention.h"

namespace heed::nn {

// What to compute; see heed/attention.h for the meaning of each option. Every setter returns the options, so that they chain.
class AttentionOptions {
 public:
  AttentionOptions& scale(double value) {
    scale_ = value;
    return *this;
  }
  // true aligns the last query with the last key (bottom-right).
  AttentionOptions& causal(bool value) {
    causal_ = value ? Causal::kBottomRight : Causal::kNone;
    return *this;
  }
  AttentionOptions& causal(Causal value) {
    causal_ = value;
    return *this;
  }
  // int64 [B]; queries at and beyond their length give 0.
  AttentionOptions& query_lengths(at::Tensor value) {
    query_lengths_ = std::move(value);
    return *this;
  }
  // int64 [B] or [B, Nq].
  AttentionOptions& key_lengths(at::Tensor value) {
    key_lengths_ = std::move(value);
    return *this;
  }
  AttentionOptions& query_offset(int64_t value) {
    query_offset_ = value;
    return *this;
  }
  AttentionOptions& key_offset(int64_t value) {
    key_offset_ = value;
    return *this;
  }
  // [Hq, 2M+1] or [1, 2M+1], floating point; receives a gradient when it requires one.
  AttentionOptions& relative_bias(at::Tensor value) {
    relative_bias_ = std::move(value);
    return *this;
  }
  // Without a seed, one is drawn from PyTorch's default generator.
  AttentionOptions& dropout(double probability) {
    dropout_ = probability;
    return *this;
  }
  AttentionOptions& seed(int64_t value) {
    seed_ = value;
    return *this;
  }
  AttentionOptions& batch_offset(int64_t value) {
    batch_offset_ = value;
    return *this;
  }
  AttentionOptions& empty_row(EmptyRow value) {
    empty_row_ = value;
    return *this;
  }
  // Asks for the matrix of weights before dropout [B, Hq, Nq, Nk]: quadratic memory, not differentiable.
  AttentionOptions& return_weights(bool value) {
    return_weights_ = value;
    return *this;
  }

  const std::optional<double>& scale() const { return scale_; }
  Causal causal() const { return causal_; }
  const at::Tensor& query_lengths() const { return query_lengths_; }
  const at::Tensor& key_lengths() const { return key_lengths_; }
  const std::optional<int64_t>& query_offset() const { return query_offset_; }
  const std::optional<int64_t>& key_offset() const { return key_offset_; }
  const at::Tensor& relative_bias() const { return relative_bias_; }
  double dropout() const { return dropout_; }
  const std::optional<int64_t>& seed() const { return seed_; }
  int64_t batch_offset() const { return batch_offset_; }
  EmptyRow empty_row() const { return empty_row_; }
  bool return_weights() const { return return_weights_; }

 private:
  std::optional<double> scale_;
  Causal causal_ = Causal::kNone;
  at::Tensor query_lengths_, key_lengths_;
  std::optional<int64_t> query_offset_, key_offset_;
  at::Tensor relative_bias_;
  double dropout_ = 0.0;
  std::optional<int64_t> seed_;
  int64_t batch_offset_ = 0;
  EmptyRow empty_row_ = EmptyRow::kZero;
  bool return_weights_ = false;
};

struct AttentionOutput {
  at::Tensor output;   // [B, Hq, Nq, Dv]
  at::Tensor lse;      // [B, Hq, Nq], natural logarithm, differentiable too
  at::Tensor weights;  // [B, Hq, Nq, Nk] before dropout; not differentiable; undefined unless asked for
};

// query [B, Hq, Nq, D], key [B, Hkv, Nk, D], value [B, Hkv, Nk, Dv], float32 or float64, any strides. Differentiable in query,
// key, value and the relative bias; a second derivative raises. Throws heed::InvalidArgument, naming the argument.
AttentionOutput attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options = {});

}  // namespace heed::nn

#endif  // HEED_NN_ATTENTION_H_
