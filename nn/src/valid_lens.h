// d2l's valid lengths as the engine wants them.
#ifndef HEED_NN_SRC_VALID_LENS_H_
#define HEED_NN_SRC_VALID_LENS_H_

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace heed::nn {

// int64 lengths in 0..steps of the same shape. A step j counts if j < valid_len: zero, less and NaN leave none, more than
// `steps` leaves all, 2.5 leaves three. Undefined stays undefined. valid_lens: numbers of shape [batch], or [batch, queries]
// when queries >= 0. Throws InvalidArgument.
at::Tensor ClampValidLens(const at::Tensor& valid_lens, int64_t batch, int64_t queries, int64_t steps);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_VALID_LENS_H_
