// Linear attention with decay and the gated delta rule as differentiable functions of tensors, in time and memory linear in the
// sequence length; heed/linear_attention.h and heed/gated_delta.h have the formulas and their sources.
#ifndef HEED_NN_LINEAR_ATTENTION_H_
#define HEED_NN_LINEAR_ATTENTION_H_

#include <ATen/core/Tensor.h>

namespace heed::nn {

// Undefined tensors are absent. Decays, beta and states have the type of query; with 16-bit queries they may be float32.
struct LinearAttentionOptions {
  // Log decays of at most 0: [B, H, N], or [1, H, 1] for all steps of a head. Absent: 0.
  at::Tensor decay{};
  // [B, H, D, Dv], with Dv + 1 columns if normalised; finite. Absent: 0.
  at::Tensor initial_state{};
  // int64 [B], within 0..N: a call does not read steps at and beyond the length, and outputs are 0 there.
  at::Tensor lengths{};
  // int64 [B + 1], cumulative lengths of sequences packed in tensors of one batch row; one state a sequence.
  at::Tensor offsets{};
  // Divides outputs by the sum of their weights. The gated delta rule refuses it.
  bool normalise = false;
};

struct LinearAttentionResult {
  at::Tensor output;       // [B, H, N, Dv], of the type of query
  at::Tensor final_state;  // shape of the initial state; type of query, float32 for 16-bit queries
};

// query, key [B, H, N, D], value [B, H, N, Dv]: float32, float64, bfloat16 or float16 on the CPU, any strides; 16-bit types are
// computed in float32 and rounded once. It does not scale queries. Results share no memory with arguments. Both results are
// differentiable once, in operands, decay, beta and the initial state. Throws heed::InvalidArgument, naming the argument,
// before it computes anything; a second derivative throws c10::Error, forward mode c10::NotImplementedError.
LinearAttentionResult linear_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const LinearAttentionOptions& options = {});

// The gated delta rule, with beta [B, H, N], finite; the rest is as in linear_attention.
LinearAttentionResult gated_delta_rule(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const at::Tensor& beta, const LinearAttentionOptions& options = {});

}  // namespace heed::nn

#endif  // HEED_NN_LINEAR_ATTENTION_H_
