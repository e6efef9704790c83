#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
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

// Of the operator's results, those that are differentiable, and what a backward pass needs beside them.
constexpr std::size_t kOutput = 0, kLse = 1, kStatistics = 2, kRemainder = 3, kCorrection = 4, kLargestKey = 5, kResults = 6;
// Behind the tensors are saved output, lse, remainder and correction, then statistics and their keys.
constexpr std::size_t kSavedStatistics = kCallTensors + 4;

at::ArrayRef<at::Tensor> OperandsOf(const variable_list& tensors) {
  return at::ArrayRef<at::Tensor>(tensors).slice(0, Operands::kCount);
}

const OperatorHandle& DerivativeOperator(const char* name) {
  static const auto find = [](const char* of) { return c10::Dispatcher::singleton().findSchemaOrThrow(of, ""); };
  static const OperatorHandle forward = find("heed::attention_forward"), backward = find("heed::attention_backward"),
                              tangent = find("heed::attention_tangent"),
                              backward_tangent = find("heed::attention_backward_tangent");
  const std::string_view of(name);
  return of == "forward" ? forward : of == "backward" ? backward : of == "tangent" ? tangent : backward_tangent;
}

variable_list CallDerivative(const char* name, const variable_list& tensors, const std::vector<IValue>& numbers,
                             const std::vector<bool>* wanted = nullptr) {
  return CallOperator(DerivativeOperator(name), tensors, numbers, wanted);
}

at::Tensor DualTangent(const at::Tensor& tensor) { return tensor.defined() ? tensor._fw_grad(/*level=*/0) : tensor; }
variable_list DualTangents(const variable_list& tensors) {
  variable_list tangents;
  for (const at::Tensor& tensor : tensors) tangents.push_back(DualTangent(tensor));
  return tangents;
}

variable_list Primals(const variable_list& tensors) {
  variable_list primals;
  for (const at::Tensor& tensor : tensors) primals.push_back(HasTangent(tensor) ? tensor._fw_primal(/*level=*/0) : tensor);
  return primals;
}

variable_list Gradients(const variable_list& d_results, const variable_list& saved, const std::vector<bool>& wanted,
                        const std::vector<IValue>& numbers) {
  const at::Tensor d_statistics = d_results.size() > kStatistics ? d_results[kStatistics] : at::Tensor();
  if (ArePlain(d_results) && ArePlain(saved) && !WantsNode(d_results) && !WantsNode(saved)) {
    // What the operator's kernel does, without the making of its sixty arguments.
    AttentionOptions options = OptionsFrom(numbers, saved[kCallTensors - 1]);
    const auto tensors = options.tensors().All();
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
    return ListOf(GradientsOf(of_results, call, std::move(options), asked));
  }
  return CallDerivative(
      "backward",
      Joined(PartOf(d_results, 0, 2), PartOf(saved, 0, 3), PartOf(saved, kCallTensors, 4), PartOf(saved, 3, kOptionTensors),
             variable_list{d_statistics}, PartOf(saved, kSavedStatistics, 2)),
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

void ForwardWithDerivative(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const variable_list tensors = TensorsOnStack(op, *stack, 0, kCallTensors);
  if (!HasTangent(tensors)) return ForwardWithNode(op, keys, stack, tensors);
  const std::size_t arguments = op.schema().arguments().size();
  const bool statistics = torch::jit::peek(*stack, 0, 2).toBool(), exact = stack->back().toBool();
  RefuseWhatHasNone(tensors, statistics);
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(arguments - kCallTensors);
  variable_list along;
  for (const std::size_t t : kTangentOperands) along.push_back(DualTangent(tensors[t]));
  // Output, lse and the tangents of both.
  const variable_list both =
      CallDerivative("tangent", Joined(Primals(tensors), along), std::vector<IValue>(first, stack->end() - 2));
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
  std::vector<IValue> numbers = NumbersOf(options);
  numbers.insert(numbers.end(), {options.return_statistics(), /*exact=*/false});
  const variable_list results = CallDerivative("forward", tensors, numbers);
  return {results[kOutput], results[kLse], results[kStatistics], {}, {}, {}};
}

// Second derivatives of attention: those of its gradient and of its tangent, in the graph of derivatives and along tangents.
// The gradient of sum(output * d_output) + sum(lse * d_lse) has a symmetric Jacobian, its Hessian, so that all of them are
// heed::attention_tangent and heed::attention_backward_tangent (docs/derivatives.md has the three ways).

// Arguments of attention_backward, d_output and d_lse first.
constexpr std::size_t kBackwardCall = 2, kBackwardOutput = 5, kBackwardLse = 6, kBackwardOptions = 9,
                      kBackwardInputs = kBackwardOptions + kOptionTensors;
constexpr std::size_t kBackwardTensors = kBackwardInputs + 3, kBackwardStatistics = kBackwardInputs;

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
  const auto first = stack->end() - static_cast<std::ptrdiff_t>(op.schema().arguments().size() - kBackwardTensors);
  const variable_list d = CallDerivative("backward_tangent", Joined(Primals(PartOf(tensors, 0, kBackwardInputs)), along, rows),
                                         std::vector<IValue>(first, stack->end() - 1), &wanted);
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
  m.impl("attention_backward", BoxedKernel<&BackwardWithDerivative>());
  m.impl("attention_tangent", BoxedKernel<&TangentWithNode>());
}

}  // namespace heed::nn
