#include "heed/nn/dropout.h"

#include <cmath>
#include <string>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "attention_call.h"
#include "executor.h"
#include "heed/dropout.h"
#include "heed/error.h"
#include "tensor_view.h"

namespace heed::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

template <class T>
void Drop(double p, int64_t seed, const at::Tensor& X, const at::Tensor& Y) {
  TorchExecutor executor;
  const heed::Dropout dropout{p, static_cast<uint64_t>(seed)};
  DropElements(dropout, AddressOf<const T>(X), AddressOf<T>(Y), X.numel(), executor);
}

// The gradient is the same function of the output's gradient.
struct DropoutFunction : Function<DropoutFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& view, double p, int64_t seed) {
    ctx->saved_data["p"] = p;
    ctx->saved_data["seed"] = seed;
    const at::Tensor X = Dense("X", view).contiguous();
    at::Tensor Y = at::empty_like(X);
    X.scalar_type() == at::kDouble ? Drop<double>(p, seed, X, Y) : Drop<float>(p, seed, X, Y);
    return Y;
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    return {apply(gradients[0], ctx->saved_data["p"].toDouble(), ctx->saved_data["seed"].toInt()), {}, {}};
  }
};

void CheckProbability(double p) {
  if (!(p >= 0.0 && p <= 1.0)) throw InvalidArgument("Dropout: p: expected a number in [0, 1], got " + std::to_string(p));
}

}  // namespace

torch::Tensor drop_elements(const torch::Tensor& X, double p, bool training) {
  CheckProbability(p);
  if (!training || p == 0.0) return X;
  const bool ours = X.device().is_cpu() && X.layout() == at::kStrided && !X.is_nested() &&
                    (X.scalar_type() == at::kFloat || X.scalar_type() == at::kDouble) && std::lround(p * 65536) < 65536;
  return ours ? DropoutFunction::apply(X, p, DrawSeed()) : at::dropout(X, p, /*train=*/true);
}

DropoutImpl::DropoutImpl(double p) : p_(p) { CheckProbability(p); }

void DropoutImpl::pretty_print(std::ostream& stream) const { stream << "heed::nn::Dropout(p=" << p_ << ")"; }

torch::Tensor DropoutImpl::forward(const torch::Tensor& X) { return drop_elements(X, p_, is_training()); }

}  // namespace heed::nn
