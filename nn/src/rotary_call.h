// From tensors to the engine's rotation and back, without autograd.
#ifndef HEED_NN_SRC_ROTARY_CALL_H_
#define HEED_NN_SRC_ROTARY_CALL_H_

#include <ATen/core/Tensor.h>

#include "heed/rotary.h"

namespace heed::nn {

// What apply_rotary computes. The result has the strides of at::empty_like(x).
at::Tensor RotaryForward(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& positions,
                         const Rotation& rotation);

// The length of a text whose positions these are: the largest + 1, whole; at least 0. Throws InvalidArgument.
int64_t LengthOf(const at::Tensor& positions);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_ROTARY_CALL_H_
