// torch.ops.heed.attention_*. Derivatives are attached in attention_derivative.cc.
//
// The kernels are boxed: an operator has about thirty arguments, and the same two dozen of them are options.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

#include "attention_call.h"
#include "heed/option_names.h"
#include "operator_arguments.h"
#include "operator_node.h"
#include "sizes.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

// What operators begin with that compute forwards.
struct ForwardCall {
  at::Tensor query, key, value;
  AttentionTensors tensors;  // as they came
  at::Tensor seed;

  explicit ForwardCall(Arguments& arguments) {
    query = arguments.Tensor(), key = arguments.Tensor(), value = arguments.Tensor();
    CheckAttentionInputs(query, key, value);
    tensors = arguments.Tensors();
    seed = arguments.Tensor();
  }
  AttentionOptions Options(Arguments& arguments) const { return arguments.Options(seed).tensors(tensors); }
};

void ForwardOperator(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack);
  const ForwardCall call(arguments);
  AttentionOptions options = call.Options(arguments).return_statistics(arguments.Bool());
  const ForwardResult result =
      ResultsOf(call.query, call.key, call.value, std::move(options), arguments.Bool() ? Kept::kExact : Kept::kLse);
  torch::jit::push(*stack, result.output, result.lse, result.statistics, result.remainder, result.correction,
                   result.largest_key);
}

void CheckOperator(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack);
  const ForwardCall call(arguments);
  AttentionOptions options = call.Options(arguments).return_statistics(arguments.Bool());
  CheckCall(call.query, call.key, call.value, options.tensors(Resolved(call.tensors, call.query)));
}

// Nothing but autograd stands between tensors with these keys and their memory.
constexpr c10::DispatchKeySet kPlain({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView,
                                      c10::DispatchKey::AutocastCPU});

// What scaled_dot_product_attention's mask is as options; nothing where it needs another look.
std::optional<AttentionOptions> OptionsOf(const at::Tensor& query, const at::Tensor& mask) {
  const at::ScalarType type = mask.scalar_type();
  if (!mask.device().is_cpu() || mask.is_nested() || mask.layout() != at::kStrided || mask.dim() > 4) return std::nullopt;
  if (type == at::kBool) return AttentionOptions().mask(mask);
  if (type == at::kFloat || type == query.scalar_type()) return AttentionOptions().bias(mask);
  return std::nullopt;
}

at::Tensor OutputOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const AttentionOptions& options) {
  const auto wants = [](const at::Tensor& operand) {
    return (operand.requires_grad() && at::GradMode::is_enabled()) || operand._fw_grad(/*level=*/0).defined();
  };
  const at::Tensor q = Dense("query", query), k = Dense("key", key), v = Dense("value", value);
  CheckAttentionInputs(q, k, v);
  if (wants(q) || wants(k) || wants(v)) return DifferentiableAttention(q, k, v, options).output;
  return AttentionForward(q, k, v, options, Kept::kNothing).output;
}

std::optional<at::Tensor> PlainOperator(c10::DispatchKeySet keys, const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, std::optional<double> scale, c10::string_view causal,
                                        const std::optional<at::Tensor>& mask, bool same,
                                        const std::optional<at::Tensor>& key_lengths) {
  const auto dense = [](const at::Tensor& operand) {
    return operand.device().is_cpu() && !operand.is_nested() && operand.layout() == at::kStrided && operand.dim() == 4;
  };
  if (at::autocast::is_autocast_enabled(at::kCPU) || !dense(query) || !dense(key) || !dense(value)) return std::nullopt;
  for (const int64_t dimension : {0, 1}) {
    if (same && (key.size(dimension) != query.size(dimension) || value.size(dimension) != query.size(dimension)))
      return std::nullopt;
  }
  const bool plain = (keys.raw_repr() & ~kPlain.raw_repr()) == 0;
  std::optional<AttentionOptions> options = mask ? OptionsOf(query, *mask) : AttentionOptions();
  if (!options || (mask && causal != "none")) return std::nullopt;
  options->scale(scale).causal(ChoiceNamed<Causal>("causal", causal));
  if (key_lengths) {
    if (!key_lengths->device().is_cpu() || key_lengths->scalar_type() != at::kLong) return std::nullopt;
    options->key_lengths(*key_lengths);
  }
  if (!plain) return mask ? std::nullopt : std::optional(CallForward(query, key, value, *options).output);
  if (!mask && !key_lengths) return OutputOf(query, key, value, *options);
  return attention(query, key, value, *options).output;
}

void ForwardShape(const OperatorHandle& op, Stack* stack) {
  const bool statistics = torch::jit::peek(*stack, 0, 2).toBool(), wanted = stack->back().toBool();
  Arguments arguments(op, stack, at::kMeta);
  const at::Tensor query = arguments.Tensor(), key = arguments.Tensor(), value = arguments.Tensor();
  CheckAttentionInputs(query, key, value);
  const at::TensorOptions rows = query.options().dtype(AccumulatorType(query.scalar_type()));
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), steps = query.sym_size(2);
  const bool remainder = wanted && IsNarrow(query.scalar_type());
  torch::jit::push(*stack, EmptyOutput(query, value, query.scalar_type()), at::empty_symint({batch, heads, steps}, rows),
                   statistics ? at::empty_symint({3, batch, heads, steps}, rows) : at::Tensor(),
                   remainder ? EmptyOutput(query, value, at::kBFloat16) : at::Tensor(),
                   wanted ? at::empty_symint({batch, heads, steps}, rows) : at::Tensor(),
                   wanted && statistics ? at::empty_symint({batch, heads, steps}, rows.dtype(at::kLong)) : at::Tensor());
}

template <at::DeviceType device>
void BackwardOperator(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack, device);
  BackwardCall call(arguments);
  call.d_results.statistics = arguments.Tensor();
  call.saved.statistics = arguments.Tensor(), call.saved.largest_key = arguments.Tensor();
  CheckSavedStatistics(call.d_results.statistics, call.saved.statistics, call.saved.largest_key, call.saved.lse);
  const AttentionOptions options = arguments.Options(call.seed).tensors(call.tensors);
  const Wanted wanted = arguments.Wants();
  Operands d =
      device == at::kMeta ? EmptyGradients(call.Given(), wanted) : GradientsOf(call.d_results, call.saved, options, wanted);
  for (const at::Tensor* gradient : d.All()) torch::jit::push(*stack, *gradient);
}

template <at::DeviceType device>
void WeightsOperator(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack, device);
  const at::Tensor query = arguments.Tensor(), key = arguments.Tensor(), lse = arguments.Tensor();
  CheckAttentionInputs(query, key, key);
  CheckSavedTensors({}, {}, query, query, lse);
  const AttentionTensors tensors = arguments.Tensors();
  const at::Tensor heads = arguments.Tensor(), rows = arguments.Tensor();
  if (device == at::kMeta) {
    torch::jit::push(*stack, at::empty_symint({query.sym_size(0), heads.defined() ? heads.sym_size(0) : query.sym_size(1),
                                               rows.defined() ? rows.sym_size(0) : query.sym_size(2), key.sym_size(2)},
                                              query.options().dtype(AccumulatorType(query.scalar_type()))));
    return;
  }
  AttentionOptions options = arguments.Options(/*dropout=*/false);
  options.tensors() = Resolved(tensors, query);
  torch::jit::push(*stack,
                   AttentionWeights(query, key, lse, options, DenseIndices("heads", heads), DenseIndices("rows", rows)));
}

template <at::DeviceType device>
void TangentOperator(const OperatorHandle& op, Stack* stack) {
  Arguments arguments(op, stack, device);
  const ForwardCall call(arguments);
  OperandTangents tangents;
  for (at::Tensor& tangent : tangents) tangent = arguments.Tensor();
  CheckTangents({call.query, call.key, call.value, call.tensors}, tangents);
  const TangentResult result = device == at::kMeta
                                   ? EmptyTangents(call.query, call.value)
                                   : AttentionTangent(call.query, call.key, call.value, call.Options(arguments), tangents);
  torch::jit::push(*stack, result.output, result.lse, result.t_output, result.t_lse);
}

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
  const AttentionOptions options = arguments.Options(call.seed).tensors(call.tensors);
  Wanted wanted = arguments.Wants();
  std::fill(wanted.begin() + kTwice, wanted.end(), false);
  Operands d = device == at::kMeta ? EmptyGradients(call.Given(), wanted)
                                   : AttentionBackwardTangent(call.d_results, call.saved, options, tangents, rows, wanted);
  for (std::size_t t = 0; t < kTwice; ++t) torch::jit::push(*stack, std::move(*d.All()[t]));
}

void BackwardTangentOnce(const OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const torch::autograd::variable_list tensors = TensorsOnStack(op, *stack, 0, kBackwardTangentTensors);
  RefuseTangents("the second derivative of attention", tensors);
  CallOnce("attention", op, keys, stack, tensors,
           "a third derivative was asked for; only first and second derivatives are implemented");
}

// For a schema, of the first so many operands: "Tensor d_query, Tensor d_key".
std::string Results(const char* prefix, std::size_t count) {
  std::string results;
  for (std::size_t t = 0; t < count; ++t) results += c10::str(t == 0 ? "Tensor " : ", Tensor ", prefix, Operands::Name(t));
  return results;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  const std::string numbers = "*, " + OptionNumbers();
  const std::string call = "(Tensor query, Tensor key, Tensor value, " + OptionTensors() + "Tensor? seed=None, ";
  const std::string forward = call + numbers + ", bool statistics=False";
  // remainder: of 16-bit outputs what rounding took; correction: of lse, as a factor; largest_key: beside statistics, which key
  // has the largest weight; for attention_backward. All are undefined, None in Python, unless exact gradients are asked for,
  // which a call under autograd does by itself; statistics are unless they are asked for.
  m.def(("attention_forward" + forward +
         ", bool exact=False) -> (Tensor output, Tensor lse, Tensor statistics, Tensor remainder, Tensor correction, Tensor "
         "largest_key)")
            .c_str());
  // Its output with the commonest options, a mask being that of scaled_dot_product_attention: a step of decoding, and attention
  // over short texts with lengths, take little longer than the making of a call of attention_forward. Of dense tensors on the
  // CPU with four dimensions outside of autocast; else, and where `same` is asked of the first two dimensions and they differ,
  // nothing.
  m.def(
      "attention_plain(Tensor query, Tensor key, Tensor value, float? scale=None, str causal='none', Tensor? attn_mask=None, "
      "bool same=False, Tensor? key_lengths=None) -> Tensor?");
  // Raises what attention_forward would raise for options beside tensors of these shapes, whose elements it does not read.
  m.def(("attention_check" + forward + ") -> ()").c_str());
  // Gradients of tensors that are absent or not wanted are undefined. wanted: of each result, in order; none: all. An operator
  // has room for 64 arguments.
  m.def(("attention_backward(" + BackwardTensors() +
         "Tensor? d_statistics=None, Tensor? statistics=None, Tensor? largest_key=None, " + numbers +
         ", bool[]? wanted=None) -> (" + Results("d_", Operands::kCount) + ")")
            .c_str());
  m.def(("attention_weights(Tensor query, Tensor key, Tensor lse, " + OptionTensors() +
         "Tensor? heads=None, Tensor? rows=None, "
         "*, " +
         OptionNumbers(/*dropout=*/false) + ") -> Tensor")
            .c_str());
  // Attention and its tangents, for forward-mode differentiation. t_query and its like: tangents of what they are named after,
  // None for zeros.
  std::string tangents, twice;
  for (const std::size_t t : kTangentOperands) tangents += c10::str("Tensor? t_", Operands::Name(t), "=None, ");
  m.def(("attention_tangent" + call + tangents + numbers + ") -> (Tensor output, Tensor lse, Tensor t_output, Tensor t_lse)")
            .c_str());
  // The tangents of attention's gradients, for second derivatives; t_output and t_lse are what attention_tangent returned.
  // wanted: as attention_backward has it; of its gradients only those that may have tangents are results.
  for (std::size_t t = 0; t < kTwice; ++t) twice += c10::str("Tensor? t_", Operands::Name(t), "=None, ");
  for (const char* row : kTangentRows) twice += c10::str("Tensor? t_", row, "=None, ");
  m.def(("attention_backward_tangent(" + BackwardTensors() + twice + numbers + ", bool[]? wanted=None) -> (" +
         Results("t_d_", kTwice) + ")")
            .c_str());
}

TORCH_LIBRARY_IMPL(heed, CompositeImplicitAutograd, m) { m.impl("attention_plain", TORCH_FN(Kernel<&PlainOperator>::Call)); }

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("attention_forward", BoxedKernel<&ForwardOperator>());
  m.impl("attention_backward", BoxedKernel<&BackwardOperator<at::kCPU>>());
  m.impl("attention_weights", BoxedKernel<&WeightsOperator<at::kCPU>>());
  m.impl("attention_check", BoxedKernel<&CheckOperator>());
  m.impl("attention_tangent", BoxedKernel<&TangentOperator<at::kCPU>>());
  m.impl("attention_backward_tangent", BoxedKernel<&BackwardTangentOperator<at::kCPU>>());
}

TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("attention_forward", BoxedKernel<&ForwardShape>());
  m.impl("attention_backward", BoxedKernel<&BackwardOperator<at::kMeta>>());
  m.impl("attention_weights", BoxedKernel<&WeightsOperator<at::kMeta>>());
  m.impl("attention_tangent", BoxedKernel<&TangentOperator<at::kMeta>>());
  m.impl("attention_backward_tangent", BoxedKernel<&BackwardTangentOperator<at::kMeta>>());
}

TORCH_LIBRARY_IMPL(heed, Autograd, m) {
  // Weights have no derivative, and gradients no third one: asking for it raises.
  m.impl("attention_weights", torch::autograd::autogradNotImplementedFallback());
  m.impl("attention_backward_tangent", BoxedKernel<&BackwardTangentOnce>());
}

}  // namespace heed::nn
