// torch.ops.heed.attention_backward_tangent: the tangents of attention's gradients, for second derivatives
// (attention_second_derivative.cc calls it). It has no derivative of its own.
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <torch/library.h>

#include "attention_call.h"
#include "operator_arguments.h"
#include "operator_node.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

constexpr std::array kTangentRows{"output", "lse", "d_output", "d_lse"};
// d_output, d_lse, query, key, value, output, lse, remainder, correction, the options' tensors, the seed, tangents.
constexpr std::size_t kBackwardTangentTensors = 9 + AttentionTensors::kCount + 1 + kTwice + kTangentRows.size();

template <at::DeviceType device>
void BackwardTangentOperator(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack, device);
  BackwardCall call(arguments);
  OperandTangents tangents;
  for (std::size_t t = 0; t < kTwice; ++t) tangents[t] = arguments.Tensor();
  RowTangentTensors rows;
  for (at::Tensor* row : {&rows.output, &rows.lse, &rows.d_output, &rows.d_lse}) *row = arguments.Tensor();
  AttentionOptions options = arguments.Options(call.seed);
  Wanted wanted = arguments.Wants();
  std::fill(wanted.begin() + kTwice, wanted.end(), false);
  Operands d = device == at::kMeta ? EmptyGradients(std::move(call.given), wanted)
                                   : AttentionBackwardTangent(call.d_results, call.saved, std::move(call.given),
                                                              std::move(options), tangents, rows, wanted);
  for (std::size_t t = 0; t < kTwice; ++t) torch::jit::push(*stack, std::move(*d.All()[t]));
}

void BackwardTangentOnce(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const torch::autograd::variable_list tensors = TensorsOnStack(op, *stack, 0, kBackwardTangentTensors);
  RefuseTangents("the second derivative of attention", tensors);
  CallOnce("attention", op, keys, stack, tensors,
           "a third derivative was asked for; only first and second derivatives are implemented");
}

std::string BackwardTangentSchema() {
  std::string tangents, results;
  for (std::size_t t = 0; t < kTwice; ++t) {
    tangents += c10::str("Tensor? t_", Operands::Name(t), "=None, ");
    results += c10::str(t == 0 ? "" : ", ", "Tensor t_d_", Operands::Name(t));
  }
  for (const char* row : kTangentRows) tangents += c10::str("Tensor? t_", row, "=None, ");
  return "attention_backward_tangent(" + BackwardTensors() + tangents + "*, " + OptionNumbers() + ", " + DropoutNumbers() +
         ", bool[]? wanted=None) -> (" + results + ")";
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  // t_query and its like: tangents of what they are named after, None for zeros; t_output and t_lse are what attention_tangent
  // returned. wanted: as attention_backward has it; of its gradients only those that may have tangents are results.
  m.def(BackwardTangentSchema().c_str());
}

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("attention_backward_tangent", BoxedKernel<&BackwardTangentOperator<at::kCPU>>());
}
TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("attention_backward_tangent", BoxedKernel<&BackwardTangentOperator<at::kMeta>>());
}
TORCH_LIBRARY_IMPL(heed, Autograd, m) {
  m.impl("attention_backward_tangent", BoxedKernel<&BackwardTangentOnce>());
}

}  // namespace heed::nn
