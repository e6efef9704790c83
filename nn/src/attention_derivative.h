// Attention in the graph of derivatives.
#ifndef HEED_NN_SRC_ATTENTION_DERIVATIVE_H_
#define HEED_NN_SRC_ATTENTION_DERIVATIVE_H_

#include <ATen/core/Tensor.h>

#include "attention_call.h"

namespace heed::nn {

// AttentionForward, with a derivative in its three tensors and the differentiable ones among the options where autograd asks
// for one: what torch.ops.heed.attention_forward does of tensors that nothing intercepts. Tangents of forward mode pass, and
// second derivatives (attention_second_derivative.cc). Options carry a seed where dropout is not 0, and resolved tensors.
ForwardResult DifferentiableAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const AttentionOptions& options);

// The same through the dispatcher, where whatever intercepts tensors sees it.
ForwardResult CallForward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_ATTENTION_DERIVATIVE_H_
