#include "attention_derivative.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include "operator_arguments.h"
#include "operator_node.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using c10::IValue;
using c10::OperatorHandle;
using torch::autograd::variable_list;
using torch::jit::Stack;

// Of the operator's results, those that are differentiable, and what a backward pass needs beside them.
constexpr std::size_t kOutput = 0, kLse = 1, kStatistics = 2, kRemainder = 3, kCorrection = 4, kLargestKey = 5, kResults = 6;
// Behind the tensors are saved output, lse, remainder and correction, then statistics and their keys.
constexpr std::size_t kSavedStatistics = kCallTensors + 4;

at::ArrayRef<at::Tensor> OperandsOf(const variable_list& tensors) {
  return at::ArrayRef<at::Tensor>(tensors).slice(0, Operands::kCount);
}

variable_list Gradients(const variable_list& d_results, const variable_list& saved, const std::vector<bool>& wanted,
                        const std::vector<IValue>& numbers) {
  const at::Tensor d_statistics = d_results.size() > kStatistics ? d_results[kStatistics] : at::Tensor();
  if (ArePlain(d_results) && ArePlain(saved) && !WantsNode(d_results) && !WantsNode(saved)) {
    // What the operator's kernel does, without the making of its sixty arguments.
    Operands given{saved[0], saved[1], saved[2], {}};
    const auto tensors = given.tensors.All();
    for (std::size_t t = 0; t < tensors.size(); ++t) *tensors[t] = saved[3 + t];
    const SavedCall call{saved[0],
                         saved[1],
                         saved[2],
                         saved[kCallTensors],
                         saved[kCallTensors + 1],
                         saved[kCallTensors + 2],
                         saved[kCallTensors + 3],
                         saved[kSavedStatistics],
                         saved[kSavedStatistics + 1]};
    Wanted asked{};
    std::copy(wanted.begin(), wanted.end(), asked.begin());
    const ResultGradients of_results{d_results[0], d_results[1], d_statistics};
    return ListOf(GradientsOf(of_results, call, given, OptionsFrom(numbers, saved[kCallTensors - 1]), asked));
  }
  static const OperatorHandle backward = c10::Dispatcher::singleton().findSchemaOrThrow("heed::attention_backward", "");
  return CallOperator(backward,
                      Joined(PartOf(d_results, 0, 2), PartOf(saved, 0, 3), PartOf(saved, kCallTensors, 4),
                             PartOf(saved, 3, kOptionTensors), variable_list{d_statistics}, PartOf(saved, kSavedStatistics, 2)),
                      numbers, &wanted);
}

auto NodeOf(const variable_list& tensors, std::vector<IValue> numbers) {
  auto node = MakeNode<OperatorNode>("HeedAttentionBackward", &Gradients, OperandsOf(tensors), std::move(numbers));
  node->Save(tensors);
  return node;
}

// Of output and lse, where there are some.
using ResultTangents = std::array<at::Tensor, 2>;

void SetTangent(const at::Tensor& result, const at::Tensor& tangent) {
  if (tangent.defined() && !result._fw_grad(/*level=*/0).defined())
    result._set_fw_grad(tangent, /*level=*/0, /*is_inplace_op=*/false);
}

// The results become the node's. What it saves of them has their tangents.
template <class Pointer>
void Give(const Pointer& node, const ForwardResult& of, const ResultTangents& tangents = {}) {
  for (const at::Tensor* result : {&of.output, &of.lse, &of.statistics})
    if (result->defined()) torch::autograd::set_history(*result, node);
  SetTangent(of.output, tangents[kOutput]);
  SetTangent(of.lse, tangents[kLse]);
  node->Save({of.output, of.lse}, /*outputs=*/true);
  node->Save({of.remainder, of.correction});
  node->Save({of.statistics}, /*outputs=*/true);
  node->Save({of.largest_key});
}

// The operator's kernel below autograd, with a node where autograd asks for one.
void ForwardWithNode(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack, const variable_list& tensors,
                     const ResultTangents& tangents = {}) {
  if (!WantsNode(OperandsOf(tensors))) return CallBelowAutograd(op, keys, stack);
  const auto numbers = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size() - kCallTensors);
  const auto node = NodeOf(tensors, std::vector<IValue>(numbers, stack->end() - 2));
  stack->back() = true;  // exact
  CallBelowAutograd(op, keys, stack);
  const variable_list of = LastTensors(*stack, kResults);
  Give(node, {of[kOutput], of[kLse], of[kStatistics], of[kRemainder], of[kCorrection], of[kLargestKey]}, tangents);
}

// Names what has no tangent of a call in which some tensor has one.
void RefuseWhatHasNone(const variable_list& tensors, bool statistics) {
  const auto refuse = [](bool refused, const char* how, const char* what) {
    TORCH_CHECK_NOT_IMPLEMENTED(!refused, "attention: forward-mode differentiation is not implemented ", how, what);
  };
  for (std::size_t t = 3; t < 3 + AttentionTensors::kCount; ++t)
    refuse(!MayHaveTangent(t) && HasTangent(tensors[t]), "for ", AttentionTensors::kNames[t - 3]);
  for (std::size_t t = 3; t < Operands::kCount; ++t)
    refuse(!MayHaveTangent(t) && tensors[t].defined(), "with ", Operands::Name(t));
  refuse(tensors[kDecayTensor].defined(), "with ", "column_decay");
  refuse(statistics, "for ", "statistics");
}

// Calls the operator of tangents, of primal operands: output, lse and the tangents of both.
variable_list CallTangent(const variable_list& tensors, const std::vector<IValue>& numbers) {
  static const OperatorHandle tangent = c10::Dispatcher::singleton().findSchemaOrThrow("heed::attention_tangent", "");
  variable_list primals, along;
  for (const at::Tensor& tensor : tensors) primals.push_back(HasTangent(tensor) ? tensor._fw_primal(0) : tensor);
  for (const std::size_t t : kTangentOperands)
    along.push_back(tensors[t].defined() ? tensors[t]._fw_grad(/*level=*/0) : tensors[t]);
  return CallOperator(tangent, Joined(primals, along), numbers);
}

void ForwardWithDerivative(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const variable_list tensors = TensorsOnStack(op, *stack, 0, kCallTensors);
  if (!HasTangent(tensors)) return ForwardWithNode(op, keys, stack, tensors);
  const std::size_t arguments = op.schema().arguments().size();
  const bool statistics = torch::jit::peek(*stack, 0, 2).toBool(), exact = stack->back().toBool();
  RefuseWhatHasNone(tensors, statistics);
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(arguments - kCallTensors);
  const variable_list both = CallTangent(tensors, std::vector<IValue>(first, stack->end() - 2));
  if (exact || WantsNode(OperandsOf(tensors))) {
    ForwardWithNode(op, keys, stack, tensors, {both[2 + kOutput], both[2 + kLse]});
  } else {
    torch::jit::drop(*stack, arguments);
    // Results themselves do not depend on tangents, which may have gradients.
    const auto primal = [&](std::size_t r) { return both[r].requires_grad() ? both[r].detach() : both[r]; };
    torch::jit::push(*stack, primal(kOutput), primal(kLse), at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor());
  }
  for (const std::size_t r : {kOutput, kLse}) SetTangent(torch::jit::peek(*stack, r, kResults).toTensor(), both[2 + r]);
}

variable_list TensorsOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const AttentionOptions& options) {
  AttentionTensors own = options.tensors();
  variable_list tensors{query, key, value};
  for (at::Tensor* tensor : own.All()) tensors.push_back(std::move(*tensor));
  tensors.push_back(options.dropout() != 0.0 && options.seed() ? at::scalar_tensor(*options.seed(), at::kLong) : at::Tensor());
  return tensors;
}

ForwardResult CallForward(const variable_list& tensors, const AttentionOptions& options) {
  static const OperatorHandle forward = c10::Dispatcher::singleton().findSchemaOrThrow("heed::attention_forward", "");
  std::vector<IValue> numbers = NumbersOf(options);
  numbers.insert(numbers.end(), {options.return_statistics(), /*exact=*/false});
  const variable_list results = CallOperator(forward, tensors, numbers);
  return {results[kOutput], results[kLse], results[kStatistics], {}, {}, {}};
}

}  // namespace

ForwardResult CallForward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options) {
  return CallForward(TensorsOf(query, key, value, options), options);
}

ForwardResult DifferentiableAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const AttentionOptions& options) {
  const variable_list tensors = TensorsOf(query, key, value, options);
  if (HasTangent(tensors)) return CallForward(tensors, options);
  const bool wanted = WantsNode(OperandsOf(tensors));
  const at::NoGradGuard no_grad;
  ForwardResult result = AttentionForward(query, key, value, options, wanted ? Kept::kExact : Kept::kLse);
  if (!wanted) return result;
  Give(NodeOf(tensors, NumbersOf(options)), result);
  return result;
}

TORCH_LIBRARY_IMPL(heed, Autograd, m) {
  m.impl("attention_forward", BoxedKernel<&ForwardWithDerivative>());
}

}  // namespace heed::nn
