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

// Its arguments.
struct BackwardTangentCall {
  ResultGradients d_results;
  SavedCall saved;
  Operands given;
  AttentionOptions options;
  OperandTangents tangents;
  RowTangentTensors rows;
  Wanted wanted{};

  BackwardTangentCall(const OperatorHandle& op, Stack* stack, at::DeviceType device) {
    Arguments arguments(op, stack, device);
    d_results.output = arguments.Tensor(), d_results.lse = arguments.Tensor();
    saved.query = arguments.Tensor(), saved.key = arguments.Tensor(), saved.value = arguments.Tensor();
    saved.output = arguments.Tensor(), saved.lse = arguments.Tensor();
    saved.remainder = PresentRemainder(arguments.Tensor());
    saved.correction = PresentCorrection(arguments.Tensor(), saved.lse);
    CheckAttentionInputs(saved.query, saved.key, saved.value);
    CheckSavedTensors(d_results.output, d_results.lse, saved.query, saved.output, saved.lse);
    given = {saved.query, saved.key, saved.value, arguments.Tensors()};
    const at::Tensor seed = arguments.Tensor();
    for (std::size_t t = 0; t < kTwice; ++t) tangents[t] = arguments.Tensor();
    for (at::Tensor* row : {&rows.output, &rows.lse, &rows.d_output, &rows.d_lse}) *row = arguments.Tensor();
    options = arguments.Options();
    if (device == at::kCPU) {
      arguments.Dropout(seed, options);
    } else {
      arguments.Dropout(options);
    }
    wanted = arguments.Wants();
    std::fill(wanted.begin() + kTwice, wanted.end(), false);
  }
};

void PushTangents(Operands d, Stack* stack) {
  for (std::size_t t = 0; t < kTwice; ++t) torch::jit::push(*stack, std::move(*d.All()[t]));
}

void BackwardTangentOperator(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    BackwardTangentCall call(op, stack, at::kCPU);
    PushTangents(AttentionBackwardTangent(call.d_results, call.saved, std::move(call.given), std::move(call.options),
                                          call.tangents, call.rows, call.wanted),
                 stack);
  });
}

void BackwardTangentShape(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    BackwardTangentCall call(op, stack, at::kMeta);
    PushTangents(EmptyGradients(std::move(call.given), call.wanted), stack);
  });
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
  return "attention_backward_tangent(Tensor? d_output, Tensor? d_lse, Tensor query, Tensor key, Tensor value, Tensor output, "
         "Tensor lse, Tensor? remainder, Tensor? correction, " +
         OptionTensors() + "Tensor? seed=None, " + tangents + "*, " + OptionNumbers() + ", " + DropoutNumbers() +
         ", bool[]? wanted=None) -> (" + results + ")";
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  // t_query and its like: tangents of what they are named after, None for zeros; t_output and t_lse are what attention_tangent
  // returned. wanted: as attention_backward has it; of its gradients only those that may have tangents are results.
  m.def(BackwardTangentSchema().c_str());
}

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("attention_backward_tangent", torch::CppFunction::makeFromBoxedFunction<&BackwardTangentOperator>());
}
TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("attention_backward_tangent", torch::CppFunction::makeFromBoxedFunction<&BackwardTangentShape>());
}
TORCH_LIBRARY_IMPL(heed, Autograd, m) {
  m.impl("attention_backward_tangent", torch::CppFunction::makeFromBoxedFunction<&BackwardTangentOnce>());
}

}  // namespace heed::nn
