// Rotary positions as differentiable functions of tensors; see heed/rotary.h for the formulas and options, and Rotary in
// heed/nn/positions.h for the module.
#ifndef HEED_NN_ROTARY_H_
#define HEED_NN_ROTARY_H_

#include <ATen/core/Tensor.h>

#include "heed/rotary.h"

namespace heed::nn {

struct RotaryTables {
  at::Tensor cos, sin;  // [..., rotary_dim/2]
};

// positions: int64 or float64, of any shape [...]. type: float32 or float64. Throws heed::InvalidArgument.
RotaryTables rotary_tables(const RotaryFrequencies& frequencies, const at::Tensor& positions, at::ScalarType type);

// x [B, H, N, D] with its first 2R columns rotated; the other columns pass unchanged.
//   x          float32, float64, bfloat16 or float16, any strides; 16-bit types are computed in float32 and rounded once
//   cos, sin   [N, R] or [B or 1, N, R] of any floating type; with positions [max, R], row positions[b, i] for token i
//   positions  int64 [B or 1, N] within 0..max-1, or undefined
// Differentiable in x any number of times: the derivative is the inverse rotation. Throws heed::InvalidArgument, naming the
// argument, also for cos and sin that require a gradient.
at::Tensor apply_rotary(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const Rotation& rotation = {},
                        const at::Tensor& positions = {});

}  // namespace heed::nn

#endif  // HEED_NN_ROTARY_H_
