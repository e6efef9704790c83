// Linear layers by the faster of the two engines that LibTorch carries.
#ifndef HEED_NN_SRC_LINEAR_H_
#define HEED_NN_SRC_LINEAR_H_

#include <ATen/core/Tensor.h>

namespace heed::nn {

// X weight^T + bias, [.., in] -> [.., out], as at::linear has it. An undefined bias is none. Large products of float32 matrices
// on a processor with AVX-512 are oneDNN's, their other gradient and all else MKL's: which of the two depends on the shapes
// alone, and each gives the same bits in every run, so results repeat. torch.backends.mkldnn.enabled
// (at::globalContext().setUserEnabledMkldnn) turns oneDNN off here too. Differentiable twice.
// Throws InvalidArgument for an X of another type than the weights have, outside of autocast.
at::Tensor linear(const at::Tensor& X, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_LINEAR_H_
