// torch.ops.heed.attention_*. Derivatives are attached in attention_derivative.cc.
//
// The kernels are boxed: an operator has about thirty arguments, and the same two dozen of them are options.
#include <algorithm>
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
    options = arguments.Options();
    options.tensors() = std::move(tensors);
    arguments.Dropout(seed, options);
    options.return_statistics(arguments.Bool());
    if (!arguments.AtEnd()) exact = arguments.Bool();
  }
};

void ForwardOperator(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    ForwardCall call(op, stack);
    call.options.tensors() = Resolved(call.options.tensors(), call.query);
    const ForwardResult result =
        AttentionForward(call.query, call.key, call.value, call.options, call.exact ? Kept::kExact : Kept::kLse);
    torch::jit::push(*stack, result.output, result.lse, result.statistics, result.remainder, result.correction,
                     result.largest_key);
  });
}

void CheckOperator(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    ForwardCall call(op, stack);
    call.options.tensors() = Resolved(call.options.tensors(), call.query);
    CheckCall(call.query, call.key, call.value, call.options);
  });
}

// Nothing but autograd stands between tensors with these keys and their memory.
constexpr c10::DispatchKeySet kPlain({c10::DispatchKey::CPU, c10::DispatchKey::AutogradCPU, c10::DispatchKey::ADInplaceOrView,
                                      c10::DispatchKey::AutocastCPU});

// The output of heed::attention_forward with these arguments and no others.
at::Tensor OutputOfOperator(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            std::optional<double> scale, c10::string_view causal) {
  static const OperatorHandle forward = c10::Dispatcher::singleton().findSchemaOrThrow("heed::attention_forward", "");
  Stack stack{query, key, value};
  for (const c10::Argument& argument : forward.schema().arguments()) {
    if (argument.name() == "scale") {
      stack.emplace_back(scale);
    } else if (argument.name() == "causal") {
      stack.emplace_back(std::string(causal));
    } else if (argument.default_value()) {
      stack.push_back(*argument.default_value());
    }
  }
  forward.callBoxed(&stack);
  return stack.front().toTensor();
}

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
    if (!plain) return OutputOfOperator(query, key, value, scale, causal);
    return TranslateErrors([&] {
      AttentionOptions options;
      options.scale(scale).causal(ChoiceNamed<Causal>("causal", causal));
      return OutputOf(query, key, value, options);
    });
  }
  std::optional<AttentionOptions> options = OptionsOf(query, *mask);
  if (causal != "none" || !options || !plain) return std::nullopt;
  options->scale(scale);
  return TranslateErrors([&] { return attention(query, key, value, *options).output; });
}

void ForwardShape(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
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
  });
}

void BackwardOperator(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    Arguments arguments(op, stack);
    const at::Tensor d_output = arguments.Tensor(), d_lse = arguments.Tensor();
    const at::Tensor query = arguments.Tensor(), key = arguments.Tensor(), value = arguments.Tensor();
    const at::Tensor output = arguments.Tensor(), lse = arguments.Tensor();
    const at::Tensor remainder = PresentRemainder(arguments.Tensor());
    const at::Tensor correction = PresentCorrection(arguments.Tensor(), lse);
    CheckAttentionInputs(query, key, value);
    CheckSavedTensors(d_output, d_lse, query, output, lse);
    Operands given{query, key, value, arguments.Tensors()};
    const at::Tensor seed = arguments.Tensor();
    const at::Tensor d_statistics = arguments.Tensor(), statistics = arguments.Tensor(), largest_key = arguments.Tensor();
    CheckSavedStatistics(d_statistics, statistics, largest_key, lse);
    AttentionOptions options = arguments.Options();
    arguments.Dropout(seed, options);
    const Wanted wanted = arguments.Wants();
    Operands d =
        GradientsOf({d_output, d_lse, d_statistics},
                    {query, key, value, output, lse, remainder, correction, statistics, largest_key}, given, options, wanted);
    for (const at::Tensor* gradient : d.All()) torch::jit::push(*stack, *gradient);
  });
}

void BackwardShape(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    Arguments arguments(op, stack, at::kMeta);
    const at::Tensor d_output = arguments.Tensor(), d_lse = arguments.Tensor();
    const at::Tensor query = arguments.Tensor(), key = arguments.Tensor(), value = arguments.Tensor();
    const at::Tensor output = arguments.Tensor(), lse = arguments.Tensor();
    PresentRemainder(arguments.Tensor());
    PresentCorrection(arguments.Tensor(), lse);
    CheckAttentionInputs(query, key, value);
    CheckSavedTensors(d_output, d_lse, query, output, lse);
    const Operands given{query, key, value, arguments.Tensors()};
    arguments.Tensor();
    const at::Tensor d_statistics = arguments.Tensor(), statistics = arguments.Tensor(), largest_key = arguments.Tensor();
    CheckSavedStatistics(d_statistics, statistics, largest_key, lse);
    AttentionOptions options = arguments.Options();
    arguments.Dropout(options);
    Operands d = EmptyGradients(given, arguments.Wants());
    for (const at::Tensor* gradient : d.All()) torch::jit::push(*stack, *gradient);
  });
}

void WeightsOperator(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    Arguments arguments(op, stack);
    const at::Tensor query = arguments.Tensor(), key = arguments.Tensor(), lse = arguments.Tensor();
    CheckAttentionInputs(query, key, key);
    CheckSavedTensors({}, {}, query, query, lse);
    const AttentionTensors tensors = arguments.Tensors();
    const at::Tensor heads = DenseIndices("heads", arguments.Tensor()), rows = DenseIndices("rows", arguments.Tensor());
    AttentionOptions options = arguments.Options();
    options.tensors() = Resolved(tensors, query);
    torch::jit::push(*stack, AttentionWeights(query, key, lse, options, heads, rows));
  });
}

void WeightsShape(const OperatorHandle& op, Stack* stack) {
  TranslateErrors([&] {
    Arguments arguments(op, stack, at::kMeta);
    const at::Tensor query = arguments.Tensor(), key = arguments.Tensor();
    CheckAttentionInputs(query, key, key);
    CheckSavedTensors({}, {}, query, query, arguments.Tensor());
    arguments.Tensors();
    const at::Tensor heads = arguments.Tensor(), rows = arguments.Tensor();
    torch::jit::push(*stack, at::empty_symint({query.sym_size(0), heads.defined() ? heads.sym_size(0) : query.sym_size(1),
                                               rows.defined() ? rows.sym_size(0) : query.sym_size(2), key.sym_size(2)},
                                              query.options().dtype(AccumulatorType(query.scalar_type()))));
  });
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
  // Gradients of tensors that are absent or not wanted are undefined. wanted: of each result, in order; none: all. An operator
  // has room for 64 arguments.
  m.def(("attention_backward(Tensor? d_output, Tensor? d_lse, Tensor query, Tensor key, Tensor value, Tensor output, Tensor "
         "lse, Tensor? remainder, Tensor? correction, " +
         tensors + "Tensor? seed=None, Tensor? d_statistics=None, Tensor? statistics=None, Tensor? largest_key=None, *, " +
         numbers + ", " + dropout + ", bool[]? wanted=None) -> (" + OfOperands("Tensor d_", "") + ")")
            .c_str());
  m.def(("attention_weights(Tensor query, Tensor key, Tensor lse, " + tensors + "Tensor? heads=None, Tensor? rows=None, *, " +
         numbers + ") -> Tensor")
            .c_str());
}

TORCH_LIBRARY_IMPL(heed, CompositeImplicitAutograd, m) { m.impl("attention_plain", TORCH_FN(PlainOperator)); }

TORCH_LIBRARY_IMPL(heed, CPU, m) {
  m.impl("attention_forward", torch::CppFunction::makeFromBoxedFunction<&ForwardOperator>());
  m.impl("attention_backward", torch::CppFunction::makeFromBoxedFunction<&BackwardOperator>());
  m.impl("attention_weights", torch::CppFunction::makeFromBoxedFunction<&WeightsOperator>());
  m.impl("attention_check", torch::CppFunction::makeFromBoxedFunction<&CheckOperator>());
}

TORCH_LIBRARY_IMPL(heed, Meta, m) {
  m.impl("attention_forward", torch::CppFunction::makeFromBoxedFunction<&ForwardShape>());
  m.impl("attention_backward", torch::CppFunction::makeFromBoxedFunction<&BackwardShape>());
  m.impl("attention_weights", torch::CppFunction::makeFromBoxedFunction<&WeightsShape>());
}

// Weights have no derivative: asking for it raises.
TORCH_LIBRARY_IMPL(heed, Autograd, m) { m.impl("attention_weights", torch::autograd::autogradNotImplementedFallback()); }

}  // namespace heed::nn
