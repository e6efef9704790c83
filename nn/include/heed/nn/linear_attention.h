// Linear attention with decay and the gated delta rule as differentiable functions of tensors, in time and memory linear in the
// sequence length; heed/linear_attention.h and heed/gated_delta.h have the formulas and their sources.
#ifndef HEED_NN_LINEAR_ATTENTION_H_
#define HEED_NN_LINEAR_ATTENTION_H_

#include <ATen/core/Tensor.h>

namespace heed::nn {

// Undefined tensors are absent. Decays, like beta, are of the type of query, or float32 beside 16-bit ones; so are states.
struct LinearAttentionOptions {
  // Log decays of at most 0: [B, H, N], or [1, H, 1], which serves all steps of a head. Absent: 0.
  at::Tensor decay{};
  // [B, H, D, Dv], with Dv + 1 columns where normalised; finite. Absent: 0.
  at::Tensor initial_state{};
  // int64 [B], within 0..N: steps at and beyond the length are not read, and outputs are 0 there.
  at::Tensor lengths{};
  // int64 [B + 1], cumulative lengths of sequences that lie end to end in tensors of one batch row; one state a sequence.
  at::Tensor offsets{};
  // Divides outputs by the sum of their weights. Not for the gated delta rule.
  bool normalise = false;
};

struct LinearAttentionResult {
  at::Tensor output;       // [B, H, N, Dv], of the type of query
  at::Tensor final_state;  // as the initial one; float32 beside 16-bit queries
};

// query, key [B, H, N, D], value [B, H, N, Dv]: float32, float64, bfloat16 or float16 on the CPU, any strides; 16-bit types are
// computed in float32 and rounded once. Queries are not scaled. Results share no memory with arguments. Both results are
// differentiable once, with respect to operands, decay, beta and the initial state. Throws heed::InvalidArgument, which names
// the argument, before anything is computed; a second derivative raises c10::Error, forward mode c10::NotImplementedError.
LinearAttentionResult linear_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const LinearAttentionOptions& options = {});

// The same for the gated delta rule; beta [B, H, N], finite.
LinearAttentionResult gated_delta_rule(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const at::Tensor& beta, const LinearAttentionOptions& options = {});

}  // namespace heed::nn

#endif  // HEED_NN_LINEAR_ATTENTION_H_
