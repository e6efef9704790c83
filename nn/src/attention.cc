#include "heed/nn/attention.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention_call.h"
#include "heed/error.h"

namespace heed::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Carries options through autograd's saved data. Tensors are left out: they are saved as variables, where a change in place
// between forward and backward is noticed.
struct OptionsHolder : torch::CustomClassHolder {
  explicit OptionsHolder(AttentionOptions value)
      : options(std::move(value.query_lengths({}).key_lengths({}).relative_bias({}))) {}
  AttentionOptions options;
};

std::optional<at::Tensor> Present(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

// The backward pass. It is a function of its own so that asking for its derivative raises.
struct AttentionGradient : Function<AttentionGradient> {
  static variable_list forward(AutogradContext*, const std::optional<at::Tensor>& d_output,
                               const std::optional<at::Tensor>& d_lse, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse,
                               const AttentionOptions& options, bool want_relative_bias) {
    const Gradients d = AttentionBackward(d_output.value_or(at::Tensor()), d_lse.value_or(at::Tensor()), query, key, value,
                                          output, lse, options, want_relative_bias);
    if (!want_relative_bias) return {d.query, d.key, d.value};
    return {d.query, d.key, d.value, d.relative_bias};
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    throw Error("attention: a second derivative was asked for; only first derivatives are implemented");
  }
};

struct AttentionFunction : Function<AttentionFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const std::optional<at::Tensor>& relative_bias, const AttentionOptions& options) {
    const ForwardResult result = AttentionForward(query, key, value, options);
    ctx->save_for_backward({query, key, value, options.relative_bias(), options.query_lengths(), options.key_lengths(),
                            result.output, result.lse});
    ctx->saved_data["options"] = c10::IValue::make_capsule(c10::make_intrusive<OptionsHolder>(options));
    ctx->set_materialize_grads(false);
    return {result.output, result.lse};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    const std::optional<at::Tensor> d_output = Present(d_outputs[0]), d_lse = Present(d_outputs[1]);
    if (!d_output && !d_lse) return variable_list(5);
    const variable_list saved = ctx->get_saved_variables();
    AttentionOptions options =
        c10::static_intrusive_pointer_cast<OptionsHolder>(ctx->saved_data["options"].toCapsule())->options;
    options.relative_bias(saved[3]).query_lengths(saved[4]).key_lengths(saved[5]);
    const bool want_relative_bias = saved[3].defined() && ctx->needs_input_grad(3);
    const variable_list d = AttentionGradient::apply(d_output, d_lse, saved[0], saved[1], saved[2], saved[6], saved[7], options,
                                                     want_relative_bias);
    return {d[0], d[1], d[2], want_relative_bias ? d[3] : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

AttentionOutput attention(const at::Tensor& query_view, const at::Tensor& key_view, const at::Tensor& value_view,
                          const AttentionOptions& options) {
  CheckAttentionInputs(query_view, key_view, value_view);
  // A lazily negated tensor (the imaginary part of a conjugate) holds the opposite of what it stands for.
  const at::Tensor query = query_view.resolve_neg(), key = key_view.resolve_neg(), value = value_view.resolve_neg();
  AttentionOptions resolved = options;
  resolved.relative_bias(ExpandRelativeBias(options.relative_bias(), query));
  if (options.dropout() != 0.0 && !options.seed()) resolved.seed(DrawSeed());

  const variable_list outputs = AttentionFunction::apply(query, key, value, Present(resolved.relative_bias()), resolved);

  AttentionOutput result{outputs[0], outputs[1], {}};
  if (options.return_weights()) {
    const at::NoGradGuard no_grad;
    result.weights = AttentionWeights(query, key, result.lse.detach(), resolved);
  }
  return result;
}

}  // namespace heed::nn
