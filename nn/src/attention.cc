#include "heed/nn/attention.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention_call.h"
#include "heed/error.h"
#include "heed/nn/positions.h"
#include "token_positions.h"

namespace heed::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::size_t kDifferentiable = AttentionTensors::kDifferentiable;
using Parameters = std::array<std::optional<at::Tensor>, kDifferentiable>;

// Carries options through autograd's saved data. Tensors are left out: they are saved as variables, where a change in place
// between forward and backward is noticed.
struct OptionsHolder : torch::CustomClassHolder {
  explicit OptionsHolder(AttentionOptions value) : options(std::move(value)) { options.tensors() = {}; }
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
                               const std::optional<at::Tensor>& remainder, const std::optional<at::Tensor>& correction,
                               const AttentionOptions& options, const Wanted& wanted) {
    const SavedCall saved{query, key, value, output, lse, remainder.value_or(at::Tensor()), correction.value_or(at::Tensor())};
    const Gradients d =
        AttentionBackward(d_output.value_or(at::Tensor()), d_lse.value_or(at::Tensor()), saved, options, wanted);
    variable_list results{d.query, d.key, d.value};
    for (std::size_t t = 0; t < wanted.size(); ++t)
      if (wanted[t]) results.push_back(d.tensors[t]);
    return results;
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    throw Error("attention: a second derivative was asked for; only first derivatives are implemented");
  }
};

// query, key, value and the differentiable tensors are arguments of their own, so that autograd sees them.
struct AttentionFunction : Function<AttentionFunction> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                               const std::optional<at::Tensor>& /*bias*/, const std::optional<at::Tensor>& /*relative_bias*/,
                               const std::optional<at::Tensor>& /*slopes*/, const std::optional<at::Tensor>& /*content_keys*/,
                               const std::optional<at::Tensor>& /*content_values*/,
                               const std::optional<at::Tensor>& /*content_queries*/, const AttentionOptions& options,
                               bool exact) {
    const ForwardResult result = AttentionForward(query, key, value, options, exact);
    variable_list saved{query, key, value, result.output, result.lse, result.remainder, result.correction};
    AttentionTensors tensors = options.tensors();
    for (const at::Tensor* tensor : tensors.All()) saved.push_back(*tensor);
    ctx->save_for_backward(saved);
    ctx->saved_data["options"] = c10::IValue::make_capsule(c10::make_intrusive<OptionsHolder>(options));
    ctx->set_materialize_grads(false);
    ctx->mark_non_differentiable({result.statistics});
    return {result.output, result.lse, result.statistics};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& d_outputs) {
    variable_list gradients(3 + kDifferentiable + 2);
    const std::optional<at::Tensor> d_output = Present(d_outputs[0]), d_lse = Present(d_outputs[1]);
    if (!d_output && !d_lse) return gradients;
    const variable_list saved = ctx->get_saved_variables();
    AttentionOptions options =
        c10::static_intrusive_pointer_cast<OptionsHolder>(ctx->saved_data["options"].toCapsule())->options;
    const auto all = options.tensors().All();
    for (std::size_t t = 0; t < all.size(); ++t) *all[t] = saved[7 + t];
    Wanted wanted{};
    std::size_t edge = 3;  // absent tensors have none
    for (std::size_t t = 0; t < wanted.size(); ++t) wanted[t] = all[t]->defined() && ctx->needs_input_grad(edge++);
    const variable_list d = AttentionGradient::apply(d_output, d_lse, saved[0], saved[1], saved[2], saved[3], saved[4],
                                                     Present(saved[5]), Present(saved[6]), options, wanted);
    std::copy(d.begin(), d.begin() + 3, gradients.begin());
    std::size_t next = 3;
    for (std::size_t t = 0; t < wanted.size(); ++t)
      if (wanted[t]) gradients[3 + t] = d[next++];
    return gradients;
  }
};

bool WillNeedGradient(const std::array<at::Tensor, 3>& operands, AttentionTensors tensors) {
  if (!at::GradMode::is_enabled()) return false;
  const auto requires_grad = [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  const auto all = tensors.All();
  return std::any_of(operands.begin(), operands.end(), requires_grad) ||
         std::any_of(all.begin(), all.end(), [&](const at::Tensor* tensor) { return requires_grad(*tensor); });
}

// The options with a scheme's tensors among them and no scheme.
AttentionOptions WithTensorsOf(const AttentionPosition& scheme, AttentionOptions options) {
  AttentionTensors own = scheme.tensors();
  const auto given = options.tensors().All();
  for (std::size_t t = 0; t < kDifferentiable; ++t) {
    const at::Tensor& tensor = *own.All()[t];
    if (!tensor.defined()) continue;
    if (given[t]->defined()) {
      const std::string name = AttentionTensors::kNames[t];
      throw InvalidArgument(name + ": position brings its own; give " + name + " or position, not both");
    }
    *given[t] = tensor;
  }
  if (own.slopes.defined()) options.slopes(own.slopes, scheme.symmetric());
  return options.position(nullptr);
}

}  // namespace

AttentionOutput attention(const at::Tensor& query_view, const at::Tensor& key_view, const at::Tensor& value_view,
                          const AttentionOptions& options) {
  at::Tensor query = Dense("query", query_view), key = Dense("key", key_view);
  const at::Tensor value = Dense("value", value_view);
  CheckAttentionInputs(query, key, value);
  const at::Tensor heads = DenseIndices("heads", options.weights_of_heads()),
                   rows = DenseIndices("rows", options.weights_of_rows());
  const AttentionPosition* scheme = options.position().get();
  AttentionOptions resolved = scheme ? WithTensorsOf(*scheme, options) : options;
  resolved.tensors() = Resolved(resolved.tensors(), query);
  if (scheme && scheme->rotates()) {
    const CallPositions positions = PositionsOf(resolved, query.size(2), key.size(2));
    std::tie(query, key) = scheme->rotate(query, key, positions.queries, positions.keys);
  }
  if (options.dropout() != 0.0 && !options.seed()) resolved.seed(DrawSeed());

  const AttentionTensors& tensors = resolved.tensors();
  const variable_list outputs = AttentionFunction::apply(
      query, key, value, Present(tensors.bias), Present(tensors.relative_bias), Present(tensors.slopes),
      Present(tensors.content_keys), Present(tensors.content_values), Present(tensors.content_queries), resolved,
      WillNeedGradient({query, key, value}, resolved.tensors()));

  AttentionOutput result{outputs[0], outputs[1], {}, {}};
  if (options.return_statistics()) result.statistics = outputs[2];
  if (options.return_weights()) {
    const at::NoGradGuard no_grad;
    result.weights = AttentionWeights(query, key, result.lse.detach(), resolved, heads, rows);
  }
  return result;
}

}  // namespace heed::nn
