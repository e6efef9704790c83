// Positional encodings added to the input.
#ifndef HEED_NN_POSITIONAL_ENCODING_H_
#define HEED_NN_POSITIONAL_ENCODING_H_

#include <cstdint>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/pimpl.h>

#include "heed/length_policy.h"
#include "heed/nn/dropout.h"
#include "heed/positions.h"

namespace heed::nn {

using heed::LengthPolicy;

// d2l's encoding: forward(X, offset) = dropout(X + P[:, offset : offset + steps]), X [batch, steps, num_hiddens].
// P [1, max_len, num_hiddens] moves with the module and stays float32 or float64 in casts to 16 bits; the state dict does not
// hold it. Vaswani et al. 2017, section 3.5.
class PositionalEncodingImpl : public torch::nn::Cloneable<PositionalEncodingImpl> {
 public:
  PositionalEncodingImpl(int64_t num_hiddens, double dropout, int64_t max_len = 1000,
                         LengthPolicy length_policy = LengthPolicy::kError, SinusoidalOptions table = {});
  void reset() override;
  // offset: position of the first step. positions: the position of every step instead, [steps] or [batch or 1, steps], int64 or
  // float64 (timestamps); the formula computes their rows in double precision, whatever max_len and angles are.
  torch::Tensor forward(const torch::Tensor& X, int64_t offset = 0, const torch::Tensor& positions = {});
  const torch::Tensor& P() const { return table_; }

  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Device device, bool non_blocking = false) override;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(int64_t{0})}, {2, torch::nn::AnyValue(torch::Tensor())})

 private:
  torch::Tensor RowsFrom(int64_t first, int64_t steps) const;  // [steps, num_hiddens]

  int64_t num_hiddens_, max_len_;
  double probability_;
  LengthPolicy length_policy_;
  SinusoidalOptions options_;
  torch::Tensor table_;
  Dropout dropout_{nullptr};
};
TORCH_MODULE(PositionalEncoding);

// One trainable row per position, N(0, 0.02): forward(X, offset) = dropout(X + W[offset : offset + steps]).
class LearnedPositionsImpl : public torch::nn::Cloneable<LearnedPositionsImpl> {
 public:
  LearnedPositionsImpl(int64_t num_hiddens, double dropout, int64_t max_len = 1000,
                       LengthPolicy length_policy = LengthPolicy::kError);
  void reset() override;
  // positions: the row of every step instead of an offset, int64 [steps] or [batch or 1, steps]; the length policy decides
  // about rows beyond the table.
  torch::Tensor forward(const torch::Tensor& X, int64_t offset = 0, const torch::Tensor& positions = {});
  torch::Tensor weight;  // [max_len, num_hiddens]

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(int64_t{0})}, {2, torch::nn::AnyValue(torch::Tensor())})

 private:
  int64_t num_hiddens_, max_len_;
  double probability_;
  LengthPolicy length_policy_;
  Dropout dropout_{nullptr};
};
TORCH_MODULE(LearnedPositions);

}  // namespace heed::nn

#endif  // HEED_NN_POSITIONAL_ENCODING_H_
