// d2l's valid lengths as the engine wants them.
#ifndef HEED_NN_SRC_VALID_LENS_H_
#define HEED_NN_SRC_VALID_LENS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

namespace heed::nn {

// int64 lengths in 0..steps of the same shape. A step j counts if j < valid_len: zero, less and NaN leave none, more than
// `steps` leaves all, 2.5 leaves three. Undefined stays undefined. valid_lens: numbers of shape [batch], or [batch, queries]
// when queries >= 0. Throws InvalidArgument. Works on meta tensors.
at::Tensor ClampValidLens(const at::Tensor& valid_lens, const c10::SymInt& batch, const c10::SymInt& queries,
                          const c10::SymInt& steps);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_VALID_LENS_H_
