// Operators that do nothing but allocate what attention returns, for what a call costs before it computes:
//   heed_bench::nothing         no derivative
//   heed_bench::differentiable  the autograd front end of heed::nn::attention: the same tensors saved
#include <tuple>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
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

}  // namespace

TORCH_LIBRARY(heed_bench, m) {
  m.def("nothing(Tensor query, Tensor key, Tensor value) -> (Tensor, Tensor, Tensor)", &Nothing);
  m.def("differentiable(Tensor query, Tensor key, Tensor value) -> (Tensor, Tensor, Tensor)", &Differentiable);
}
