#include "heed/nn/attention.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention_call.h"
#include "heed/error.h"
#include "heed/nn/attention_position.h"
#include "heed/nn/dropout.h"
#include "scheme_options.h"
#include "token_positions.h"

namespace heed::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Carries options through autograd's saved data. Tensors are left out: they are saved as variables, where a change in place
// between forward and backward is noticed.
struct OptionsHolder : torch::CustomClassHolder {
  explicit OptionsHolder(AttentionOptions value) : options(std::move(value)) { options.tensors() = {}; }
  AttentionOptions options;
};

std::optional<at::Tensor> Present(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

// The backward pass: the gradients that are wanted. It is a function of its own so that asking for its derivative raises.
struct AttentionGradient : Function<AttentionGradient> {
  static variable_list forward(AutogradContext*, const std::optional<at::Tensor>& d_output,
                               const std::optional<at::Tensor>& d_lse, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse,
                               const std::optional<at::Tensor>& remainder, const std::optional<at::Tensor>& correction,
                               const AttentionOptions& options, const Wanted& wanted) {
    const SavedCall saved{query, key, value, output, lse, remainder.value_or(at::Tensor()), correction.value_or(at::Tensor())};
    Operands d = AttentionBackward(d_output.value_or(at::Tensor()), d_lse.value_or(at::Tensor()), saved, options, wanted);
    variable_list results;
    for (const at::Tensor* gradient : d.All())
      if (gradient->defined()) results.push_back(*gradient);
    return results;
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    throw Error("attention: a second derivative was asked for; only first derivatives are implemented");
  }
};

// The operands that are present are a list of their own, which autograd sees; those among the options it does not.
struct AttentionFunction : Function<AttentionFunction> {
  static variable_list forward(AutogradContext* ctx, at::TensorList operands, const AttentionOptions& options, Kept kept) {
    const at::Tensor &query = operands[0], &key = operands[1], &value = operands[2];
    const ForwardResult result = AttentionForward(query, key, value, options, kept);
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
    variable_list gradients(Operands::kCount + 2);  // autograd drops undefined ones beyond the arguments
    const std::optional<at::Tensor> d_output = Present(d_outputs[0]), d_lse = Present(d_outputs[1]);
    if (!d_output && !d_lse) return gradients;
    const variable_list saved = ctx->get_saved_variables();
    AttentionOptions options =
        c10::static_intrusive_pointer_cast<OptionsHolder>(ctx->saved_data["options"].toCapsule())->options;
    const auto all = options.tensors().All();
    for (std::size_t t = 0; t < all.size(); ++t) *all[t] = saved[7 + t];
    Operands given{saved[0], saved[1], saved[2], options.tensors()};
    Wanted wanted{};
    std::vector<std::size_t> edges;  // of what is wanted
    std::size_t edge = 0;
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      if (!given.All()[t]->defined()) continue;
      wanted[t] = ctx->needs_input_grad(edge);
      if (wanted[t]) edges.push_back(edge);
      ++edge;
    }
    const variable_list d = AttentionGradient::apply(d_output, d_lse, saved[0], saved[1], saved[2], saved[3], saved[4],
                                                     Present(saved[5]), Present(saved[6]), options, wanted);
    for (std::size_t i = 0; i < edges.size(); ++i) gradients[edges[i]] = d[i];
    return gradients;
  }
};

variable_list PresentOperands(Operands operands) {
  variable_list present;
  present.reserve(Operands::kCount);
  for (const at::Tensor* operand : operands.All())
    if (operand->defined()) present.push_back(*operand);
  return present;
}

bool WillNeedGradient(const variable_list& operands) {
  return at::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(operands);
}

bool HasTangent(const variable_list& operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [](const at::Tensor& operand) { return operand._fw_grad(/*level=*/0).defined(); });
}

// Output, log-sum-exps and statistics. Where autograd has nothing to keep, it is not asked: its bookkeeping takes longer than a
// decoding step over a few keys. Tangents go its way, where they are refused.
variable_list Attend(const Operands& given, const AttentionOptions& options) {
  const variable_list operands = PresentOperands(given);
  const bool differentiable = WillNeedGradient(operands);
  if (differentiable || HasTangent(operands))
    return AttentionFunction::apply(at::TensorList(operands), options, differentiable ? Kept::kExact : Kept::kLse);
  const at::NoGradGuard no_grad;
  const ForwardResult result = AttentionForward(operands[0], operands[1], operands[2], options, Kept::kLse);
  return {result.output, result.lse, result.statistics};
}

}  // namespace

int64_t FirstRowOfDropout(const AttentionOptions& options) {
  int64_t offset = 0;
  if (__builtin_add_overflow(options.batch_offset(), first_batch_row(), &offset)) {
    throw InvalidArgument("batch_offset: " + std::to_string(options.batch_offset()) + " leaves no room for FirstBatchRow's " +
                          std::to_string(first_batch_row()));
  }
  return offset;
}

AttentionOutput attention(const at::Tensor& query_view, const at::Tensor& key_view, const at::Tensor& value_view,
                          const AttentionOptions& options) {
  at::Tensor query = Dense("query", query_view), key = Dense("key", key_view);
  const at::Tensor value = Dense("value", value_view);
  CheckAttentionInputs(query, key, value);
  const at::Tensor heads = DenseIndices("heads", options.weights_of_heads()),
                   rows = DenseIndices("rows", options.weights_of_rows());
  const AttentionPosition* scheme = options.position().get();
  AttentionOptions resolved = options;
  const AxesPositions on_axes = TakeAxes(resolved);
  if (scheme) resolved = WithScheme(*scheme, std::move(resolved), query);
  resolved.position(nullptr);
  resolved.tensors() = Resolved(resolved.tensors(), query);
  if (scheme && scheme->rotates()) {
    const CallPositions positions = PositionsOf(resolved, query.size(2), key.size(2), on_axes);
    std::tie(query, key) = scheme->rotate(query, key, positions.queries, positions.keys);
  }
  if (scheme && scheme->places()) PlaceTokens(*scheme, on_axes, query.size(2), key.size(2), resolved);
  if (options.dropout() != 0.0) {
    if (!options.seed()) resolved.seed(DrawSeed());
    resolved.batch_offset(FirstRowOfDropout(options));
  }

  const variable_list outputs = Attend({query, key, value, resolved.tensors()}, resolved);

  AttentionOutput result{outputs[0], outputs[1], {}, {}};
  if (options.return_statistics()) result.statistics = outputs[2];
  if (options.return_weights()) {
    const at::NoGradGuard no_grad;
    result.weights = AttentionWeights(query, key, result.lse.detach(), resolved, heads, rows);
  }
  return result;
}

}  // namespace heed::nn
