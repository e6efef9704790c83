#include "linear.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "operator_node.h"
#include "refuse.h"
#include "translate_errors.h"

namespace heed::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

using OptionalTensor = std::optional<at::Tensor>;
using Product = at::Tensor(const at::Tensor& X, const at::Tensor& weight, const OptionalTensor& bias,
                           c10::string_view activation, c10::List<std::optional<at::Scalar>> scalars,
                           std::optional<c10::string_view> algorithm);

constexpr const char* kSchema =
    "mkldnn::_linear_pointwise(Tensor X, Tensor W, Tensor? B, str attr, Scalar?[] scalars, str? algorithm) -> Tensor Y";

// oneDNN's product of dense matrices, which PyTorch's compiler calls; none where LibTorch was built without it, where a later
// version has another, and on processors on which the two engines were not compared.
const std::optional<c10::TypedOperatorHandle<Product>>& OneDnn() {
  static const auto product = []() -> std::optional<c10::TypedOperatorHandle<Product>> {
    if (!at::globalContext().hasMKLDNN() || !at::globalContext().hasMKL() || at::get_cpu_capability() != "AVX512")
      return std::nullopt;
    const auto found = c10::Dispatcher::singleton().findSchema({"mkldnn::_linear_pointwise", ""});
    if (!found || toString(found->schema()) != kSchema) return std::nullopt;
    return found->typed<Product>();
  }();
  return product;
}

// X weight^T + bias of dense tensors, without a derivative. oneDNN reads the bias as if its elements lay side by side.
at::Tensor OneDnnProduct(const at::Tensor& X, const at::Tensor& weight, const OptionalTensor& bias) {
  const OptionalTensor dense = bias ? OptionalTensor(bias->contiguous()) : std::nullopt;
  return OneDnn()->call(X, weight, dense, "none", c10::List<std::optional<at::Scalar>>(), "");
}

// oneDNN takes some 9 microseconds longer to begin and multiplies up to a fifth faster: it gains from so many multiply-adds on
// (bench/python/linear_engines.py).
constexpr int64_t kMultiplyAdds = 12'000'000;

bool Large(const at::Tensor& X, const at::Tensor& weight) {
  return static_cast<double>(X.numel()) * static_cast<double>(weight.size(0)) >= static_cast<double>(kMultiplyAdds);
}

bool Plain(at::ArrayRef<at::Tensor> tensors) {
  return ArePlain(tensors) && std::ranges::all_of(tensors, [](const at::Tensor& tensor) {
           return !tensor.defined() || tensor.scalar_type() == at::kFloat;
         });
}

bool Fits(const at::Tensor& X, const at::Tensor& weight, const at::Tensor& bias) {
  return X.dim() >= 2 && weight.dim() == 2 && X.size(-1) == weight.size(1) &&
         (!bias.defined() || (bias.dim() == 1 && bias.size(0) == weight.size(0)));
}

bool ByOneDnn(const at::Tensor& X, const at::Tensor& weight, const at::Tensor& bias) {
  return Fits(X, weight, bias) && Plain({X, weight, bias}) && Large(X, weight) && at::globalContext().userEnabledMkldnn() &&
         OneDnn();
}

struct LinearFunction : Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& X, const at::Tensor& weight, const OptionalTensor& bias) {
    ctx->save_for_backward({X, weight});
    ctx->saved_data["bias"] = bias.has_value();
    return OneDnnProduct(X, weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &X = saved[0], &weight = saved[1];
    const at::Tensor rows = gradients[0].reshape({-1, weight.size(0)});  // [steps of all rows, out]
    variable_list d(3);
    if (ctx->needs_input_grad(0)) {
      // With a graph of this pass, a product that can be differentiated again.
      const bool ours = !at::GradMode::is_enabled() && Plain({rows, weight});
      d[0] = (ours ? OneDnnProduct(rows, weight.t(), {}) : rows.mm(weight)).view(X.sizes());
    }
    if (ctx->needs_input_grad(1)) d[1] = rows.t().mm(X.reshape({-1, X.size(-1)}));
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2)) d[2] = rows.sum(0);
    return d;
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& X, const at::Tensor& weight, const at::Tensor& bias) {
  if (X.is_cpu() && X.scalar_type() != weight.scalar_type() && !at::autocast::is_autocast_enabled(at::kCPU))
    Refuse("X: expected ", weight.scalar_type(), " as the weights of the layer have, got ", X.scalar_type());
  const OptionalTensor present = bias.defined() ? OptionalTensor(bias) : std::nullopt;
  if (!ByOneDnn(X, weight, bias)) return at::linear(X, weight, present);
  const bool differentiated =
      at::GradMode::is_enabled() && (X.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  return differentiated ? LinearFunction::apply(X, weight, present) : OneDnnProduct(X, weight, present);
}

namespace {

at::Tensor LinearOperator(const at::Tensor& X, const at::Tensor& weight, const OptionalTensor& bias) {
  return linear(X, weight, bias.value_or(at::Tensor()));
}

}  // namespace

// torch.nn.functional.linear: what Python's modules call.
TORCH_LIBRARY_FRAGMENT(heed, m) { m.def("linear(Tensor X, Tensor weight, Tensor? bias=None) -> Tensor"); }

// Made of PyTorch's operators where something intercepts the tensors, so that a trace sees those.
TORCH_LIBRARY_IMPL(heed, CompositeImplicitAutograd, m) { m.impl("linear", kKernel<&LinearOperator>); }

}  // namespace heed::nn
