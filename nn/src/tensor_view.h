// From a tensor to its memory. No other file of nn asks a tensor for its address, so that no tensor arrives there unchecked:
// an operator makes its tensors dense once, and a view of one that is not is refused.
#ifndef HEED_NN_SRC_TENSOR_VIEW_H_
#define HEED_NN_SRC_TENSOR_VIEW_H_

#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include <ATen/core/Tensor.h>

#include "heed/element.h"
#include "heed/view.h"

namespace heed::nn {

// "[2, 3, 4]"; sizes that are not known yet as the symbols that stand for them; "an undefined tensor".
std::string ShapeText(const at::Tensor& tensor);

// Throws InvalidArgument, beginning with the name, unless the tensor is defined, strided and on the device. A single number on
// the CPU passes among meta tensors, as it does in PyTorch.
void CheckDense(const char* name, const at::Tensor& tensor, at::DeviceType device = at::kCPU);

// The tensor itself, or a copy where its memory does not hold the numbers that it stands for: the lazily negated (the imaginary
// part of a conjugate), the lazily conjugated, and zeros without memory. Differentiable. Throws as CheckDense.
at::Tensor Dense(const char* name, const at::Tensor& tensor);

// Throws Error unless the tensor is what Dense returns, with elements of the type.
void CheckAddressable(const at::Tensor& tensor, at::ScalarType type);
void CheckRank(const at::Tensor& tensor, int rank);
void CheckContiguous(const at::Tensor& tensor);

template <class T>
inline constexpr at::ScalarType kScalarType = c10::CppTypeToScalarType<T>::value;
template <>
inline constexpr at::ScalarType kScalarType<BFloat16> = at::kBFloat16;
template <>
inline constexpr at::ScalarType kScalarType<Float16> = at::kHalf;

// The first element of a tensor. An empty tensor has no address, and a view without address means "absent".
template <class T>
T* AddressOf(const at::Tensor& tensor) {
  static std::remove_const_t<T> nowhere{};
  CheckAddressable(tensor, kScalarType<std::remove_const_t<T>>);
  if (tensor.numel() == 0) return &nowhere;
  if constexpr (std::is_const_v<T>) {
    return static_cast<T*>(tensor.const_data_ptr());
  } else {
    return static_cast<T*>(tensor.mutable_data_ptr());
  }
}

// An undefined tensor gives an absent view. Throws as CheckAddressable, and where the tensor has other than Rank dimensions.
// The view lives as long as the tensor's memory.
template <class T, int Rank>
View<T, Rank> ViewOf(const at::Tensor& tensor) {
  View<T, Rank> view;
  if (!tensor.defined()) return view;
  CheckRank(tensor, Rank);
  view.data = AddressOf<T>(tensor);
  for (int r = 0; r < Rank; ++r) {
    view.extent[r] = tensor.size(r);
    view.stride[r] = tensor.stride(r);
  }
  return view;
}

// All elements of a contiguous tensor of any shape, one after the other.
template <class T>
std::span<T> ElementsOf(const at::Tensor& contiguous) {
  CheckContiguous(contiguous);
  return {AddressOf<T>(contiguous), static_cast<std::size_t>(contiguous.numel())};
}

}  // namespace heed::nn

#endif  // HEED_NN_SRC_TENSOR_VIEW_H_
