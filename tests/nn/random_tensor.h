// Tensors to compute with.
#ifndef HEED_TESTS_NN_RANDOM_TENSOR_H_
#define HEED_TESTS_NN_RANDOM_TENSOR_H_

#include <ATen/ATen.h>

namespace heed::nn {

// Normally distributed doubles, in which differences of gradients are exact enough to check them.
inline at::Tensor Random(at::IntArrayRef shape) { return at::randn(shape, at::kDouble); }

}  // namespace heed::nn

#endif  // HEED_TESTS_NN_RANDOM_TENSOR_H_
