// Operators that do nothing but allocate what attention returns, for what a call costs before it computes:
//   heed_bench::nothing         no derivative
//   heed_bench::differentiable  an autograd front end of torch's: the tensors that heed saves
//   heed_bench::plain           the arguments, the node and the gradients of heed::attention_plain
#include <tuple>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Results Nothing(const at::Tensor& query, const at::Tensor& /*key*/, const at::Tensor& /*value*/) {
  return {at::empty_like(query), at::empty({1, 1, 1}), at::empty({0})};
}

struct Saved : torch::autograd::Function<Saved> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
    const auto [output, lse, statistics] = Nothing(query, key, value);
    ctx->save_for_backward({query, key, value, output, lse});
    ctx->set_materialize_grads(false);
    ctx->mark_non_differentiable({statistics});
    return {output, lse, statistics};
  }
  static variable_list backward(AutogradContext* /*ctx*/, const variable_list& /*d_outputs*/) { return variable_list(3); }
};

Results Differentiable(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  const variable_list results = Saved::apply(query, key, value);
  return {results[0], results[1], results[2]};
}

// Saves what a call saves, and allocates its gradients.
struct PlainNode final : torch::autograd::Node {
  using Node::Node;
  variable_list apply(variable_list&& /*d_outputs*/) override {
    variable_list gradients;
    for (std::size_t t = 0; t < 3; ++t) gradients.push_back(at::empty_like(saved[t].unpack(getptr())));
    return gradients;
  }
  void release_variables() override {
    for (torch::autograd::SavedVariable& variable : saved) variable.reset_data();
  }
  std::vector<torch::autograd::SavedVariable> saved;
};

std::optional<at::Tensor> Plain(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                std::optional<double> /*scale*/, c10::string_view /*causal*/,
                                const std::optional<at::Tensor>& /*attn_mask*/, bool /*same*/,
                                const std::optional<at::Tensor>& /*key_lengths*/) {
  if (!query.requires_grad()) return std::get<0>(Nothing(query, key, value));
  const auto node = c10::make_intrusive<PlainNode>(torch::autograd::collect_next_edges(query, key, value));
  for (const at::Tensor& operand : {query, key, value}) node->saved.emplace_back(operand, /*is_output=*/false);
  const at::NoGradGuard no_grad;
  const auto [output, lse, statistics] = Nothing(query, key, value);
  for (const at::Tensor& result : {output, lse}) {
    torch::autograd::set_history(result, node);
    node->saved.emplace_back(result, /*is_output=*/true);
  }
  return output;
}

}  // namespace

TORCH_LIBRARY(heed_bench, m) {
  m.def("nothing(Tensor query, Tensor key, Tensor value) -> (Tensor, Tensor, Tensor)", &Nothing);
  m.def(
      "plain(Tensor query, Tensor key, Tensor value, float? scale=None, str causal='none', Tensor? attn_mask=None, "
      "bool same=False, Tensor? key_lengths=None) -> Tensor?");
  m.def("differentiable(Tensor query, Tensor key, Tensor value) -> (Tensor, Tensor, Tensor)", &Differentiable);
}

TORCH_LIBRARY_IMPL(heed_bench, CompositeImplicitAutograd, m) { m.impl("plain", TORCH_FN(Plain)); }
