// Checks and views of the tensors that attention takes.
#ifndef HEED_NN_SRC_ATTENTION_TENSORS_H_
#define HEED_NN_SRC_ATTENTION_TENSORS_H_

#include <type_traits>

#include <ATen/core/Tensor.h>

#include "heed/element.h"
#include "heed/nn/attention.h"
#include "heed/view.h"

namespace heed::nn {

// Throws InvalidArgument unless the tensor is a dense CPU tensor.
void CheckDense(const char* name, const at::Tensor& tensor);

// An empty tensor has no address, and a view without address means "absent".
template <class T>
T* AddressOf(const at::Tensor& tensor) {
  static std::remove_const_t<T> nowhere{};
  if (tensor.numel() == 0) return &nowhere;
  if constexpr (std::is_const_v<T>) {
    return static_cast<T*>(tensor.const_data_ptr());
  } else {
    return static_cast<T*>(tensor.mutable_data_ptr());
  }
}

template <class T, int Rank>
View<T, Rank> ViewOf(const at::Tensor& tensor) {
  View<T, Rank> view;
  if (!tensor.defined()) return view;
  view.data = AddressOf<T>(tensor);
  for (int r = 0; r < Rank; ++r) {
    view.extent[r] = tensor.size(r);
    view.stride[r] = tensor.stride(r);
  }
  return view;
}

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
