// torch.ops.heed.attention_*. Derivatives are attached in attention_derivative.cc.
//
// The kernels are boxed: an operator has about thirty arguments, and the same two dozen of them are options.
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
#include "attention_derivative.h"
#include "heed/option_names.h"
#include "operator_arguments.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using c10::OperatorHandle;
using torch::jit::Stack;

// What a forward call was given; the options' tensors as they came.
struct ForwardCall {
  at::Tensor query, key, value;
  AttentionOptions options;
  bool exact = false;

  ForwardCall(const OperatorHandle& op, Stack* stack) {
    Arguments arguments(op, stack);
    query = arguments.Tensor(), key = arguments.Tensor(), value = arguments.Tensor();
    CheckAttentionInputs(query, key, value);
    AttentionTensors tensors = arguments.Tensors();
    const at::Tensor seed = arguments.Tensor();
    options = arguments.Options(seed);
    options.tensors() = std::move(tensors);
    options.return_statistics(arguments.Bool());
    if (!arguments.AtEnd()) exact = arguments.Bool();
  }
};

void ForwardOperator(const OperatorHandle& op, Stack* stack) {
  ForwardCall call(op, stack);
  call.options.tensors() = Resolved(call.options.tensors(), call.query);
  const ForwardResult result =
      AttentionForward(call.query, call.key, call.value, call.options, call.exact ? Kept::kExact : Kept::kLse);
  torch::jit::push(*stack, result.output, result.lse, result.statistics, result.remainder, result.correction,
                   result.largest_key);
}

void CheckOperator(const OperatorHandle& op, Stack* stack) {
  ForwardCall call(op, stack);
  call.options.tensors() = Resolved(call.options.tensors(), call.query);
  CheckCall(call.query, call.key, call.value, call.options);
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
                                        const std::optional<at::Tensor>& mask, bool same) {
  const auto dense = [](const at::Tensor& operand) {
    return operand.device().is_cpu() && !operand.is_nested() && operand.layout() == at::kStrided && operand.dim() == 4;
  };
  if (at::autocast::is_autocast_enabled(at::kCPU) || !dense(query) || !dense(key) || !dense(value)) return std::nullopt;
  for (const int64_t dimension : {0, 1}) {
    if (same && (key.size(dimension) != query.size(dimension) || value.size(dimension) != query.size(dimension)))
      return std::nullopt;
  }
  const bool plain = (keys.raw_repr() & ~kPlain.raw_repr()) == 0;
  if (!mask) {
    AttentionOptions options;
    options.scale(scale).causal(ChoiceNamed<Causal>("causal", causal));
    return plain ? OutputOf(query, key, value, options) : CallForward(query, key, value, options).output;
  }
  std::optional<AttentionOptions> options = OptionsOf(query, *mask);
  if (causal != "none" || !options || !plain) return std::nullopt;
  options->scale(scale);
  return attention(query, key, value, *options).output;
}

void ForwardShape(const OperatorHandle& op, Stack* stack) {
  const bool statistics = torch::jit::peek(*stack, 0, 2).toBool(), wanted = stack->back().toBool();
  Arguments arguments(op, stack, at::kMeta);
  const at::Tensor query = arguments.Tensor(), key = arguments.Tensor(), value = arguments.Tensor();
  CheckAttentionInputs(query, key, value);
  const at::TensorOptions rows = query.options().dtype(AccumulatorType(query.scalar_type()));
  const c10::SymInt batch = query.sym_size(0), heads = query.sym_size(1), steps = query.sym_size(2);
  const bool remainder = wanted && LeavesRemainder(query.scalar_type());
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
  const AttentionOptions options = arguments.Options(call.seed);
  const Wanted wanted = arguments.Wants();
  Operands d = device == at::kMeta ? EmptyGradients(call.given, wanted)
                                   : GradientsOf(call.d_results, call.saved, call.given, options, wanted);
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
  AttentionOptions options = arguments.Options();
  options.tensors() = Resolved(tensors, query);
  torch::jit::push(*stack,
                   AttentionWeights(query, key, lse, options, DenseIndices("heads", heads), DenseIndices("rows", rows)));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(heed, m) {
  const std::string tensors = OptionTensors(), numbers = OptionNumbers(), dropout = DropoutNumbers();
  const std::string forward = "(Tensor query, Tensor key, Tensor value, " + tensors + "Tensor? seed=None, *, " + numbers +
                              ", " + dropout + ", bool statistics=False";
  // remainder: of 16-bit outputs what rounding took; correction: of lse, as a factor; largest_key: beside statistics, which key
  // has the largest weight; for attention_backward. All are undefined, None in Python, unless exact gradients are asked for,
  // which a call under autograd does by itself; statistics are unless they are asked for.
  m.def(("attention_forward" + forward +
         ", bool exact=False) -> (Tensor output, Tensor lse, Tensor statistics, Tensor remainder, Tensor correction, Tensor "
         "largest_key)")
            .c_str());
  // Its output without other options than causality or the mask of scaled_dot_product_attention: a step of decoding takes
  // little longer than the making of a call of attention_forward. Of dense tensors on the CPU with four dimensions outside of
  // autocast; else, and where `same` is asked of the first two dimensions and they differ, nothing.
  m.def(
      "attention_plain(Tensor query, Tensor key, Tensor value, float? scale=None, str causal='none', Tensor? attn_mask=None, "
      "bool same=False) -> Tensor?");
  // Raises what attention_forward would raise for options beside tensors of these shapes, whose elements it does not read.
  m.def(("attention_check" + forward + ") -> ()").c_str());
  std::string gradients;
  for (std::size_t t = 0; t < Operands::kCount; ++t) gradients += c10::str(t == 0 ? "" : ", ", "Tensor d_", Operands::Name(t));
  // Gradients of tensors that are absent or not wanted are undefined. wanted: of each result, in order; none: all. An operator
  // has room for 64 arguments.
  m.def(("attention_backward(" + BackwardTensors() +
         "Tensor? d_statistics=None, Tensor? statistics=None, Tensor? largest_key=None, *, " + numbers + ", " + dropout +
         ", bool[]? wanted=None) -> (" + gradients + ")")
            .c_str());
  m.def(("attention_weights(Tensor query, Tensor key, Tensor lse, " + tensors + "Tensor? heads=None, Tensor? rows=None, *, " +
         numbers + ") -> Tensor")
            .c_str());
}

TORCH_LIBRARY_IMPL(heed, CompositeImplicitAutograd, m) { m.impl("attention_plain", TORCH_FN(Kernel<&PlainOperator>::Call)); }

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("attention_forward", BoxedKernel<&ForwardOperator>());
  m.impl("attention_backward", BoxedKernel<&BackwardOperator<at::kCPU>>());
  m.impl("attention_weights", BoxedKernel<&WeightsOperator<at::kCPU>>());
  m.impl("attention_check", BoxedKernel<&CheckOperator>());
}

TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("attention_forward", BoxedKernel<&ForwardShape>());
  m.impl("attention_backward", BoxedKernel<&BackwardOperator<at::kMeta>>());
  m.impl("attention_weights", BoxedKernel<&WeightsOperator<at::kMeta>>());
}

// Weights have no derivative: asking for it raises.
TORCH_LIBRARY_IMPL(heed, Autograd, m) { m.impl("attention_weights", torch::autograd::autogradNotImplementedFallback()); }

}  // namespace heed::nn
