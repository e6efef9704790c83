#include "attention_node.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/FuncTorchTLS.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include "heed/error.h"

namespace heed::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Node;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

std::optional<at::Tensor> Present(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

// The gradients that are wanted, in the order of operands.
variable_list Gradients(const at::Tensor& d_output, const at::Tensor& d_lse, const SavedCall& saved,
                        const AttentionOptions& options, const Wanted& wanted) {
  return PresentOf(AttentionBackward(d_output, d_lse, saved, options, wanted));
}

// The backward pass where a graph of it is made: asking for its derivative raises.
struct AttentionGradient : Function<AttentionGradient> {
  static variable_list forward(AutogradContext*, const std::optional<at::Tensor>& d_output,
                               const std::optional<at::Tensor>& d_lse, const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const at::Tensor& output, const at::Tensor& lse,
                               const std::optional<at::Tensor>& remainder, const std::optional<at::Tensor>& correction,
                               const AttentionOptions& options, const Wanted& wanted) {
    const SavedCall saved{query, key, value, output, lse, remainder.value_or(at::Tensor()), correction.value_or(at::Tensor())};
    return Gradients(d_output.value_or(at::Tensor()), d_lse.value_or(at::Tensor()), saved, options, wanted);
  }

  static variable_list backward(AutogradContext*, const variable_list&) {
    throw Error("attention: a second derivative was asked for; only first derivatives are implemented");
  }
};

// A call with an edge for every operand that is present. It is no Function, whose bookkeeping of arguments and results takes as
// long as attention of one query over a hundred keys.
class AttentionNode final : public Node {
 public:
  AttentionNode(torch::autograd::edge_list edges, const AttentionOptions& options)
      : Node(std::move(edges)), options_(options) {}

  // Once the results are this node's. Tensors are saved as variables are, those of the options too: a change in place before
  // the backward pass is noticed.
  void Save(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const ForwardResult& result) {
    saved_.reserve(kOfCall);
    for (const at::Tensor* input : {&query, &key, &value}) saved_.emplace_back(*input, /*is_output=*/false);
    for (const at::Tensor* output : {&result.output, &result.lse}) saved_.emplace_back(*output, /*is_output=*/true);
    for (const at::Tensor* lost : {&result.remainder, &result.correction}) saved_.emplace_back(*lost, /*is_output=*/false);
    const auto tensors = options_.tensors().All();
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (!tensors[t]->defined()) continue;
      present_.push_back(t);
      saved_.emplace_back(std::exchange(*tensors[t], {}), /*is_output=*/false);
    }
  }

  std::string name() const override { return "HeedAttentionBackward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable& variable : saved_) variable.reset_data();
  }

  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& /*args*/) const override {
    throw Error(
        "attention: heed's calls outside of torch.compile have no compiled autograd; compile the forward pass too, or run the "
        "backward pass outside of torch._dynamo.compiled_autograd");
  }

  variable_list apply(variable_list&& d_results) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const at::Tensor &d_output = d_results[0], &d_lse = d_results[1];
    constexpr c10::DispatchKeySet kBatched({c10::DispatchKey::Batched, c10::DispatchKey::FuncTorchBatched});
    for (const at::Tensor& d : d_results) {
      if (d.defined() && d.key_set().has_any(kBatched)) {
        throw Error(
            "attention: heed has no batched gradients (is_grads_batched=True, vectorize=True); take torch.func.vmap of "
            "torch.func.vjp, or one gradient after the other");
      }
    }
    variable_list gradients(num_outputs());
    if (!d_output.defined() && !d_lse.defined()) return gradients;
    variable_list saved;
    saved.reserve(saved_.size());
    for (const SavedVariable& variable : saved_) saved.push_back(variable.unpack(getptr()));
    const SavedCall call{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], saved[6]};
    AttentionOptions options = options_;
    for (std::size_t t = 0; t < present_.size(); ++t) *options.tensors().All()[present_[t]] = saved[kOfCall + t];

    Operands given{call.query, call.key, call.value, options.tensors()};
    Wanted wanted{};
    std::vector<std::size_t> edges;  // of what is wanted
    std::size_t edge = 0;
    for (std::size_t t = 0; t < wanted.size(); ++t) {
      if (!given.All()[t]->defined()) continue;
      wanted[t] = task_should_compute_output(edge);
      if (wanted[t]) edges.push_back(edge);
      ++edge;
    }
    variable_list d =
        at::GradMode::is_enabled()
            ? AttentionGradient::apply(Present(d_output), Present(d_lse), call.query, call.key, call.value, call.output,
                                       call.lse, Present(call.remainder), Present(call.correction), options, wanted)
            : Gradients(d_output, d_lse, call, options, wanted);
    for (std::size_t i = 0; i < edges.size(); ++i) gradients[edges[i]] = std::move(d[i]);
    return gradients;
  }

 private:
  static constexpr std::size_t kOfCall = 7;
  AttentionOptions options_;
  std::vector<SavedVariable> saved_;  // of the call, then of its options
  std::vector<std::size_t> present_;  // which of the options' tensors
};

// LibTorch counts references of nodes in one way or in another, depending on its version.
using NodePointer = std::remove_cvref_t<decltype(std::declval<at::Tensor>().grad_fn())>;

template <class Made, class... Arguments>
auto MakeNode(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePointer, std::shared_ptr<Node>>) {
    return std::shared_ptr<Made>(new Made(std::forward<Arguments>(arguments)...), [](Made* node) { deleteNode(node); });
  } else {
    return c10::make_intrusive<Made>(std::forward<Arguments>(arguments)...);
  }
}

void RefuseTangents(const variable_list& operands) {
  const bool any = std::any_of(operands.begin(), operands.end(),
                               [](const at::Tensor& operand) { return operand._fw_grad(/*level=*/0).defined(); });
  TORCH_CHECK_NOT_IMPLEMENTED(!any, "attention: forward-mode differentiation is not implemented");
}

}  // namespace

ForwardResult DifferentiableAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                      const AttentionOptions& options) {
  const variable_list operands = PresentOf({query, key, value, options.tensors()});
  RefuseTangents(operands);
  const bool differentiable = at::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(operands);
  if (const auto& transforms = at::functorch::functorchTLSAccessor(); differentiable && transforms)
    transforms->checkSupportsCppAutogradFunction();
  const at::NoGradGuard no_grad;
  ForwardResult result = AttentionForward(query, key, value, options, differentiable ? Kept::kExact : Kept::kLse);
  if (!differentiable) return result;
  const auto node = MakeNode<AttentionNode>(torch::autograd::collect_next_edges(operands), options);
  for (const at::Tensor* output : {&result.output, &result.lse}) torch::autograd::set_history(*output, node);
  node->Save(query, key, value, result);
  return result;
}

}  // namespace heed::nn
