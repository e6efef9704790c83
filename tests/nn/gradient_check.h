// Derivatives of tensor functions against central differences.
#ifndef HEED_TESTS_NN_GRADIENT_CHECK_H_
#define HEED_TESTS_NN_GRADIENT_CHECK_H_

#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace heed::nn::testing {

using TensorFunction = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// Compares d sum(f(inputs) * G) / d inputs, G fixed and random, with differences of step 1e-6. Inputs are float64 leaves. The
// rounding of such a difference is about 1e-16 / 1e-6 times the loss, its truncation about 1e-12 times the third derivative;
// 1e-7 leaves room for both and is far below any wrong term.
inline void ExpectGradientsMatch(const TensorFunction& f, std::vector<at::Tensor> inputs) {
  constexpr double kStep = 1e-6, kTolerance = 1e-7;
  for (at::Tensor& input : inputs) input = input.detach().clone().set_requires_grad(true);
  const at::Tensor output = f(inputs);
  const at::Tensor weight = at::randn(output.sizes(), output.options());
  const auto analytic = torch::autograd::grad({(output * weight).sum()}, inputs, {}, /*retain_graph=*/false,
                                              /*create_graph=*/false, /*allow_unused=*/false);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < inputs.size(); ++i) {
    double* element = inputs[i].data_ptr<double>();
    const at::Tensor gradient = analytic[i].contiguous();
    ASSERT_EQ(gradient.sizes(), inputs[i].sizes());
    for (int64_t e = 0; e < inputs[i].numel(); ++e) {
      const double kept = element[e];
      element[e] = kept + kStep;
      const double above = (f(inputs) * weight).sum().item<double>();
      element[e] = kept - kStep;
      const double below = (f(inputs) * weight).sum().item<double>();
      element[e] = kept;
      const double numeric = (above - below) / (2 * kStep);
      ASSERT_NEAR(gradient.data_ptr<double>()[e], numeric, kTolerance * std::max(1.0, std::abs(numeric)))
          << "input " << i << ", element " << e;
    }
  }
}

}  // namespace heed::nn::testing

#endif  // HEED_TESTS_NN_GRADIENT_CHECK_H_
