// Forward-mode differentiation of operators that have none.
#ifndef HEED_NN_SRC_FORWARD_MODE_H_
#define HEED_NN_SRC_FORWARD_MODE_H_

#include <algorithm>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace heed::nn {

// A boxed kernel for the key ADInplaceOrView, below the derivatives that a front end attaches: those look at gradients alone
// and would drop a tangent, so that it arrived as zeros.
inline void RefuseTangents(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  const bool tangent = std::any_of(stack->end() - count, stack->end(), [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor()._fw_grad(/*level=*/0).defined();
  });
  TORCH_CHECK_NOT_IMPLEMENTED(!tangent, op.schema().name(), ": forward-mode differentiation is not implemented");
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_FORWARD_MODE_H_
