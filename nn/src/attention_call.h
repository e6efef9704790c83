// From tensors to the engine and back, without autograd.
#ifndef HEED_NN_SRC_ATTENTION_CALL_H_
#define HEED_NN_SRC_ATTENTION_CALL_H_

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "heed/nn/attention.h"

namespace heed::nn {

// "[2, 3, 4]"
std::string ShapeText(const at::Tensor& tensor);

// Throws InvalidArgument unless the three are dense CPU tensors [B, H, N, D] of one type, float32 or float64.
void CheckAttentionInputs(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

// Throws InvalidArgument unless the gradients (where defined) and what the forward pass returned have query's type.
void CheckSavedTensors(const at::Tensor& d_output, const at::Tensor& d_lse, const at::Tensor& query, const at::Tensor& output,
                       const at::Tensor& lse);

// The relative bias as the engine takes it: [Hq, 2M+1] in query's type. Differentiable.
at::Tensor ExpandRelativeBias(const at::Tensor& relative_bias, const at::Tensor& query);

// Uninitialised output [B, Hq, Nq, Dv]. When query keeps its heads inside the steps, as a projection's output does, so does
// the result: what follows then needs no copy either. Works on meta tensors.
at::Tensor EmptyOutput(const at::Tensor& query, const at::Tensor& value);

struct ForwardResult {
  at::Tensor output, lse;
};
// Options carry a seed where dropout is not 0, and a relative bias as ExpandRelativeBias returns it.
ForwardResult AttentionForward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const AttentionOptions& options);

struct Gradients {
  at::Tensor query, key, value, relative_bias;  // the last undefined unless wanted
};
// d_output, d_lse: gradients of the two results; an undefined one counts as zeros.
Gradients AttentionBackward(const at::Tensor& d_output, const at::Tensor& d_lse, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse,
                            const AttentionOptions& options, bool want_relative_bias);

// The weights before dropout [B, Hq, Nq, Nk], from the log-sum-exp of the forward pass.
at::Tensor AttentionWeights(const at::Tensor& query, const at::Tensor& key, const at::Tensor& lse,
                            const AttentionOptions& options);

// A seed from PyTorch's default generator.
int64_t DrawSeed();

}  // namespace heed::nn

#endif  // HEED_NN_SRC_ATTENTION_CALL_H_
