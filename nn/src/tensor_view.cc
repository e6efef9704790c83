#include "tensor_view.h"

#include <sstream>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "refuse.h"

namespace heed::nn {

std::string ShapeText(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  std::ostringstream text;
  text << tensor.sym_sizes();
  return text.str();
}

void CheckDense(const char* name, const at::Tensor& tensor, at::DeviceType device) {
  if (tensor.defined() && !tensor.is_nested() && tensor.layout() == at::kStrided && tensor.device().type() == device) return;
  if (!tensor.defined()) Refuse(name, ": expected a tensor, got an undefined one");
  if (tensor.is_nested()) Refuse(name, ": expected a dense tensor, got a nested one");
  if (tensor.layout() != at::kStrided) Refuse(name, ": expected a strided tensor, got layout ", tensor.layout());
  if (device != at::kMeta) Refuse(name, ": expected a CPU tensor, got one on ", tensor.device());
  if (tensor.is_cpu() && tensor.dim() == 0) return;
  Refuse(name, ": expected a meta tensor because another tensor of the call is one, got one on ", tensor.device());
}

at::Tensor Dense(const char* name, const at::Tensor& tensor) {
  CheckDense(name, tensor);
  if (tensor._is_zerotensor()) return at::zeros(tensor.sizes(), tensor.options());
  return tensor.is_conj() || tensor.is_neg() ? tensor.resolve_conj().resolve_neg() : tensor;
}

void CheckAddressable(const at::Tensor& tensor, at::ScalarType type) {
  CheckDense("tensor", tensor);
  if (tensor.is_neg() || tensor.is_conj() || tensor._is_zerotensor()) {
    throw Error("a tensor whose memory does not hold its numbers was to be read; it should have been made dense");
  }
  if (tensor.scalar_type() != type) {
    throw Error(std::string("a tensor of ") + at::toString(tensor.scalar_type()) + " stands where " + at::toString(type) +
                " is read");
  }
}

void CheckRank(const at::Tensor& tensor, int rank) {
  if (tensor.dim() != rank) {
    throw Error("a tensor of shape " + ShapeText(tensor) + " stands where " + std::to_string(rank) + " dimensions are read");
  }
}

void CheckContiguous(const at::Tensor& tensor) {
  if (!tensor.is_contiguous()) throw Error("a tensor with gaps stands where one without is read");
}

}  // namespace heed::nn
