// torch.ops.heed.attention_tangent: attention and its tangents, for forward-mode differentiation (attention_derivative.cc calls
// it). Its derivative is attached in attention_second_derivative.cc.
#include <cstddef>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <torch/library.h>

#include "attention_call.h"
#include "operator_arguments.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

template <at::DeviceType device>
void TangentOperator(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack, device);
  const at::Tensor query = arguments.Tensor(), key = arguments.Tensor(), value = arguments.Tensor();
  CheckAttentionInputs(query, key, value);
  AttentionTensors tensors = arguments.Tensors();
  const at::Tensor seed = arguments.Tensor();
  OperandTangents tangents;
  for (at::Tensor& tangent : tangents) tangent = arguments.Tensor();
  CheckTangents({query, key, value, tensors}, tangents);
  TangentResult result;
  if (device == at::kMeta) {
    result = EmptyTangents(query, value);
  } else {
    AttentionOptions options = arguments.Options(seed);
    options.tensors() = std::move(tensors);
    result = AttentionTangent(query, key, value, std::move(options), tangents);
  }
  torch::jit::push(*stack, result.output, result.lse, result.t_output, result.t_lse);
}

std::string TangentSchema() {
  std::string tangents;
  for (std::size_t t = 0; t < kTangents; ++t)
    tangents += c10::str("Tensor? t_", Operands::Name(kTangentOperands[t]), "=None, ");
  return "attention_tangent(Tensor query, Tensor key, Tensor value, " + OptionTensors() + "Tensor? seed=None, " + tangents +
         "*, " + OptionNumbers() + ", " + DropoutNumbers() + ") -> (Tensor output, Tensor lse, Tensor t_output, Tensor t_lse)";
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  // t_query and its like: tangents of what they are named after, None for zeros.
  m.def(TangentSchema().c_str());
}

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("attention_tangent", BoxedKernel<&TangentOperator<at::kCPU>>());
}
TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("attention_tangent", BoxedKernel<&TangentOperator<at::kMeta>>());
}

}  // namespace heed::nn
