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

// Compares d sum(f() * G) / d leaves, G fixed and random, with differences of step 1e-6 of the numbers in the leaves, which f
// reads and which are float64. The rounding of such a difference is about 1e-16 / 1e-6 times the loss, its truncation about
// 1e-12 times the third derivative; 1e-7 leaves room for both and is far below any wrong term.
inline void ExpectLeafGradientsMatch(const std::function<at::Tensor()>& f, const std::vector<at::Tensor>& leaves) {
  constexpr double kStep = 1e-6, kTolerance = 1e-7;
  const at::Tensor output = f();
  const at::Tensor weight = at::randn(output.sizes(), output.options());
  const auto analytic = torch::autograd::grad({(output * weight).sum()}, leaves, {}, /*retain_graph=*/false,
                                              /*create_graph=*/false, /*allow_unused=*/false);
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < leaves.size(); ++i) {
    double* element = leaves[i].data_ptr<double>();
    const at::Tensor gradient = analytic[i].contiguous();
    ASSERT_EQ(gradient.sizes(), leaves[i].sizes());
    for (int64_t e = 0; e < leaves[i].numel(); ++e) {
      const double kept = element[e];
      element[e] = kept + kStep;
      const double above = (f() * weight).sum().item<double>();
      element[e] = kept - kStep;
      const double below = (f() * weight).sum().item<double>();
      element[e] = kept;
      const double numeric = (above - below) / (2 * kStep);
      ASSERT_NEAR(gradient.data_ptr<double>()[e], numeric, kTolerance * std::max(1.0, std::abs(numeric)))
          << "input " << i << ", element " << e;
    }
  }
}

// The same for a function of tensors, at copies of the inputs.
inline void ExpectGradientsMatch(const TensorFunction& f, std::vector<at::Tensor> inputs) {
  for (at::Tensor& input : inputs) input = input.detach().clone().set_requires_grad(true);
  ExpectLeafGradientsMatch([&] { return f(inputs); }, inputs);
}

}  // namespace heed::nn::testing

#endif  // HEED_TESTS_NN_GRADIENT_CHECK_H_
