// Checks of the tensors that attention takes, and the engine's options from them.
#ifndef HEED_NN_SRC_ATTENTION_TENSORS_H_
#define HEED_NN_SRC_ATTENTION_TENSORS_H_

#include <ATen/core/Tensor.h>

#include "heed/element.h"
#include "heed/nn/attention.h"

namespace heed::nn {

// The engine's options from resolved tensors; A is the accumulator.
template <class A>
Attention EngineOptions(const AttentionOptions& options);

// Calls run(T{}) with the engine's type for the elements of a tensor.
template <class Run>
void WithElementType(at::ScalarType type, const Run& run) {
  switch (type) {
    case at::kDouble:
      return run(double{});
    case at::kBFloat16:
      return run(BFloat16{});
    case at::kHalf:
      return run(Float16{});
    default:
      return run(float{});
  }
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_ATTENTION_TENSORS_H_
