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

// Its arguments.
struct TangentCall {
  at::Tensor query, key, value;
  AttentionOptions options;
  OperandTangents tangents;

  TangentCall(const OperatorHandle& op, Stack* stack, at::DeviceType device) {
    Arguments arguments(op, stack, device);
    query = arguments.Tensor(), key = arguments.Tensor(), value = arguments.Tensor();
    CheckAttentionInputs(query, key, value);
    AttentionTensors tensors = arguments.Tensors();
    const at::Tensor seed = arguments.Tensor();
    for (at::Tensor& tangent : tangents) tangent = arguments.Tensor();
    CheckTangents({query, key, value, tensors}, tangents);
    if (device != at::kCPU) return;
    options = arguments.Options();
    options.tensors() = std::move(tensors);
    arguments.Dropout(seed, options);
  }
};

void TangentOperator(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    TangentCall call(op, stack, at::kCPU);
    const TangentResult result = AttentionTangent(call.query, call.key, call.value, std::move(call.options), call.tangents);
    torch::jit::push(*stack, result.output, result.lse, result.t_output, result.t_lse);
  });
}

void TangentShape(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    const TangentCall call(op, stack, at::kMeta);
    const at::Tensor& query = call.query;
    const auto output = [&] { return EmptyOutput(query, call.value, query.scalar_type()); };
    const auto rows = [&] {
      return at::empty_symint({query.sym_size(0), query.sym_size(1), query.sym_size(2)},
                              query.options().dtype(AccumulatorType(query.scalar_type())));
    };
    torch::jit::push(*stack, output(), rows(), output(), rows());
  });
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

TORCH_LIBRARY_IMPL(heed, CPU, m) { m.impl("attention_tangent", torch::CppFunction::makeFromBoxedFunction<&TangentOperator>()); }
TORCH_LIBRARY_IMPL(heed, Meta, m) { m.impl("attention_tangent", torch::CppFunction::makeFromBoxedFunction<&TangentShape>()); }

}  // namespace heed::nn
