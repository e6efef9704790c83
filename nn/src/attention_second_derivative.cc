// Second derivatives of attention: those of its gradient and of its tangent, in the graph of derivatives and along tangents.
// The gradient of sum(output * d_output) + sum(lse * d_lse) has a symmetric Jacobian, its Hessian, so that all of them are
// heed::attention_tangent and heed::attention_backward_tangent (docs/derivatives.md has the three ways).
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "attention_call.h"
#include "operator_arguments.h"
#include "operator_node.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::autograd::variable_list;
using torch::jit::Stack;

// Arguments of attention_backward, d_output and d_lse first.
constexpr std::size_t kBackwardCall = 2, kBackwardOutput = 5, kBackwardLse = 6, kBackwardOptions = 9,
                      kBackwardInputs = kBackwardOptions + kOptionTensors;
constexpr std::size_t kBackwardTensors = kBackwardInputs + 3, kBackwardStatistics = kBackwardInputs;

const OperatorHandle& DerivativeOperator(const char* name) {
  static const auto find = [](const char* of) { return c10::Dispatcher::singleton().findSchemaOrThrow(of, ""); };
  static const OperatorHandle backward = find("heed::attention_backward"), tangent = find("heed::attention_tangent"),
                              backward_tangent = find("heed::attention_backward_tangent");
  const std::string_view of(name);
  return of == "backward" ? backward : of == "tangent" ? tangent : backward_tangent;
}

variable_list CallDerivative(const char* name, const variable_list& tensors, const std::vector<IValue>& numbers,
                             const std::vector<bool>* wanted = nullptr) {
  return CallOperator(DerivativeOperator(name), tensors, numbers, wanted);
}

bool AnyIsDefined(const variable_list& tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const at::Tensor& tensor) { return tensor.defined(); });
}

// Names what has no second derivative. call: of kCallTensors tensors.
void RefuseSecond(bool refused, const char* how, const char* what) {
  TORCH_CHECK_NOT_IMPLEMENTED(!refused, "attention: a second derivative was asked for; it is not implemented ", how, what);
}
void RefuseSecondWith(const variable_list& call) {
  for (std::size_t t = kTwice; t < Operands::Index("score_reals"); ++t)
    RefuseSecond(call[t].defined(), "with ", Operands::Name(t));
  RefuseSecond(call[kDecayTensor].defined(), "with ", "column_decay");
}

// wanted: by operand, of which those behind the tangents' have no second derivative.
std::vector<bool> WantedOperands(const std::vector<bool>& wanted, std::size_t first, const variable_list& call) {
  std::vector<bool> of(Operands::kCount);
  for (std::size_t t = 0; t < of.size(); ++t) {
    of[t] = wanted[first + t] && call[t].defined();
    RefuseSecond(t >= kTwice && of[t], "for ", Operands::Name(t));
  }
  return of;
}
bool AnyIsWanted(const std::vector<bool>& wanted) {
  return std::any_of(wanted.begin(), wanted.end(), [](bool one) { return one; });
}

// The gradient of the gradient. d_results: of each gradient; saved: what attention_backward was given, up to the seed, then
// d_statistics.
variable_list GradientsOfBackward(const variable_list& d_results, const variable_list& saved, const std::vector<bool>& wanted,
                                  const std::vector<IValue>& numbers) {
  const variable_list call = Joined(PartOf(saved, kBackwardCall, 3), PartOf(saved, kBackwardOptions, kOptionTensors));
  RefuseSecondWith(call);
  RefuseSecond(saved[kBackwardStatistics].defined(), "for ", "statistics");
  for (std::size_t t = kTwice; t < d_results.size(); ++t) RefuseSecond(d_results[t].defined(), "for ", Operands::Name(t));
  const std::vector<bool> of_call = WantedOperands(wanted, kBackwardCall, call);
  const variable_list along = PartOf(d_results, 0, kTwice), once(kTangents - kTwice);
  const variable_list rows = PartOf(CallDerivative("tangent", Joined(call, along, once), numbers), 2, 2);
  variable_list gradients = rows;
  if (AnyIsWanted(of_call)) {
    const variable_list zeros(2);
    variable_list d =
        CallDerivative("backward_tangent", Joined(PartOf(saved, 0, kBackwardInputs), along, rows, zeros), numbers, &of_call);
    gradients.insert(gradients.end(), d.begin(), d.end());
  }
  gradients.resize(wanted.size());
  return gradients;
}

// A call of attention_backward, with a node where autograd asks for one. What is saved of the forward pass is no operand:
// query, key and value get all of the derivative.
void BackwardWithNode(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, const variable_list& tensors) {
  const variable_list operands =
      Joined(PartOf(tensors, 0, kBackwardCall + 3), PartOf(tensors, kBackwardOptions, Operands::kCount - 3));
  if (!WantsNode(operands)) return CallBelowAutograd(op, keys, stack);
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size() - kBackwardTensors);
  const auto node = MakeNode<OperatorNode>("HeedAttentionBackwardBackward", &GradientsOfBackward, operands,
                                           std::vector<IValue>(first, stack->end() - 1));
  node->Save(PartOf(tensors, 0, kBackwardInputs + 1));
  CallBelowAutograd(op, keys, stack);
  for (const at::Tensor& result : LastTensors(*stack, Operands::kCount)) torch::autograd::set_history(result, node);
}

at::Tensor DualTangent(const at::Tensor& tensor) { return tensor.defined() ? tensor._fw_grad(/*level=*/0) : tensor; }
variable_list DualTangents(const variable_list& tensors) {
  variable_list tangents;
  for (const at::Tensor& tensor : tensors) tangents.push_back(DualTangent(tensor));
  return tangents;
}

void BackwardWithDerivative(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const variable_list tensors = TensorsOnStack(op, *stack, 0, kBackwardTensors);
  if (!HasTangent(tensors)) return BackwardWithNode(op, keys, stack, tensors);
  const variable_list call = Joined(PartOf(tensors, kBackwardCall, 3), PartOf(tensors, kBackwardOptions, kOptionTensors));
  RefuseSecondWith(call);
  RefuseSecond(tensors[kBackwardStatistics].defined(), "for ", "statistics");
  const variable_list tangents = DualTangents(call), along = PartOf(tangents, 0, kTwice);
  for (std::size_t t = kTwice; t < Operands::kCount; ++t) RefuseSecond(tangents[t].defined(), "for ", Operands::Name(t));
  const variable_list rows = DualTangents(
      {tensors[kBackwardOutput], tensors[kBackwardLse], tensors[0], tensors[1]});  // as attention_backward_tangent has them
  RefuseSecond(AnyIsDefined(along) && (!rows[0].defined() || !rows[1].defined()), "for ",
               "an output or a log-sum-exp without a tangent");
  std::vector<bool> wanted(Operands::kCount, true);
  if (!stack->back().isNone()) {
    const c10::List<bool> each = stack->back().toBoolList();
    for (std::size_t t = 0; t < wanted.size() && t < each.size(); ++t) wanted[t] = each[t];
  }
  wanted = WantedOperands(wanted, 0, call);
  variable_list primals;
  for (const at::Tensor& tensor : PartOf(tensors, 0, kBackwardInputs))
    primals.push_back(HasTangent(tensor) ? tensor._fw_primal(0) : tensor);
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size() - kBackwardTensors);
  const variable_list d =
      CallDerivative("backward_tangent", Joined(primals, along, rows), std::vector<IValue>(first, stack->end() - 1), &wanted);
  BackwardWithNode(op, keys, stack, tensors);
  const variable_list gradients = LastTensors(*stack, Operands::kCount);
  for (std::size_t t = 0; t < kTwice; ++t)
    if (gradients[t].defined() && d[t].defined()) gradients[t]._set_fw_grad(d[t], /*level=*/0, /*is_inplace_op=*/false);
}

// The gradient of the tangent. d_results: of output, lse and the tangents of both; saved: what attention_tangent was given,
// then its results.
variable_list GradientsOfTangent(const variable_list& d_results, const variable_list& saved, const std::vector<bool>& wanted,
                                 const std::vector<IValue>& numbers) {
  const variable_list call = PartOf(saved, 0, kCallTensors), along = PartOf(saved, kCallTensors, kTangents);
  const variable_list results = PartOf(saved, kCallTensors + kTangents, 4), nothing(2);
  const std::vector<bool> of_call = WantedOperands(wanted, 0, call);
  std::vector<bool> of_tangents(Operands::kCount);
  for (std::size_t t = 0; t < kTangents; ++t)
    of_tangents[kTangentOperands[t]] = wanted[Operands::kCount + t] && along[t].defined();
  // Arguments of attention_backward with these gradients of output and lse.
  const auto inputs = [&](const at::Tensor& d_output, const at::Tensor& d_lse) {
    return Joined(variable_list{d_output, d_lse}, PartOf(call, 0, 3), PartOf(results, 0, 2), nothing,
                  PartOf(call, 3, kOptionTensors));
  };
  const auto backward = [&](std::size_t from, const std::vector<bool>& of) {
    return CallDerivative("backward", Joined(inputs(d_results[from], d_results[from + 1]), variable_list(3)), numbers, &of);
  };
  const bool moved = d_results[2].defined() || d_results[3].defined();
  variable_list gradients;
  if (AnyIsWanted(of_call)) {
    for (std::size_t t = kTwice; t < kTangents && moved; ++t)
      RefuseSecond(along[t].defined(), "for ", Operands::Name(kTangentOperands[t]));
    gradients = moved ? CallDerivative("backward_tangent",
                                       Joined(inputs(d_results[2], d_results[3]), PartOf(along, 0, kTwice),
                                              PartOf(results, 2, 2), PartOf(d_results, 0, 2)),
                                       numbers, &of_call)
                      : backward(0, of_call);
  }
  gradients.resize(Operands::kCount);
  if (moved && AnyIsWanted(of_tangents)) {
    const variable_list d = backward(2, of_tangents);
    for (const std::size_t operand : kTangentOperands) gradients.push_back(d[operand]);
  }
  gradients.resize(wanted.size());
  return gradients;
}

void TangentWithNode(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const variable_list tensors = TensorsOnStack(op, *stack, 0, kCallTensors + kTangents);
  RefuseTangents("the tangent of attention", tensors);
  const variable_list operands = Joined(PartOf(tensors, 0, Operands::kCount), PartOf(tensors, kCallTensors, kTangents));
  if (!WantsNode(operands)) return CallBelowAutograd(op, keys, stack);
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size() - kCallTensors - kTangents);
  const auto node = MakeNode<OperatorNode>("HeedAttentionTangentBackward", &GradientsOfTangent, operands,
                                           std::vector<IValue>(first, stack->end()));
  node->Save(tensors);
  CallBelowAutograd(op, keys, stack);
  const variable_list results = LastTensors(*stack, 4);
  for (const at::Tensor& result : results) torch::autograd::set_history(result, node);
  node->Save(results, /*outputs=*/true);
}

}  // namespace

TORCH_LIBRARY_IMPL(heed, Autograd, m) {
  m.impl("attention_backward", BoxedKernel<&BackwardWithDerivative>());
  m.impl("attention_tangent", BoxedKernel<&TangentWithNode>());
}

}  // namespace heed::nn
