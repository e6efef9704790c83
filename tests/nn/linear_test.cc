// Linear layers by two engines: the same numbers, the same bits in every run, and the choice by shape.
#include "linear.h"

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/nn/refusal.h"

namespace heed::nn {
namespace {

// 16 million multiply-adds, which go to oneDNN, and a hundredth of them, which do not.
constexpr int64_t kLarge = 1000, kSmall = 10, kIn = 128, kOut = 125;

// Whether this processor and this LibTorch have both engines.
bool HasBoth() {
  return at::globalContext().hasMKLDNN() && at::globalContext().hasMKL() && at::get_cpu_capability() == "AVX512";
}

struct LinearTest : ::testing::Test {
  at::Tensor weight = at::randn({kOut, kIn}).requires_grad_(), bias = at::randn({kOut}).requires_grad_();

  at::Tensor Input(int64_t rows) { return at::randn({2, rows / 2, kIn}).requires_grad_(); }
  bool ByOneDnn(const at::Tensor& X) {
    return linear(X, weight, bias).grad_fn()->name().find("LinearFunction") != std::string::npos;
  }
};

// |computed - exact| stays below the number of terms times the unit roundoff of float32 times the sum of their sizes.
void ExpectProduct(const at::Tensor& computed, const at::Tensor& A, const at::Tensor& B, const at::Tensor& added = {}) {
  at::Tensor exact = A.to(at::kDouble).matmul(B.to(at::kDouble)),
             size = A.to(at::kDouble).abs().matmul(B.to(at::kDouble).abs());
  if (added.defined()) exact = exact + added.to(at::kDouble), size = size + added.to(at::kDouble).abs();
  const double terms = static_cast<double>(A.size(-1)) + 1;
  EXPECT_TRUE((computed - exact).abs().le(terms * std::ldexp(1.0, -24) * size).all().item<bool>());
}

TEST_F(LinearTest, OutputAndGradientsAreThoseOfTheFormula) {
  for (const int64_t rows : {kSmall, kLarge}) {
    for (const at::Tensor& b : {bias, at::Tensor()}) {
      const at::Tensor X = at::randn({kIn, rows / 2, 2}).permute({2, 1, 0}).requires_grad_(),
                       G = at::randn({2, rows / 2, kOut});
      const at::Tensor Y = linear(X, weight, b);
      std::vector<at::Tensor> inputs{X, weight};
      if (b.defined()) inputs.push_back(b);
      const auto d = torch::autograd::grad({Y}, inputs, {G});
      const at::NoGradGuard no_grad;
      ExpectProduct(Y, X, weight.t(), b);
      ExpectProduct(d[0], G, weight);
      ExpectProduct(d[1], G.flatten(0, 1).t(), X.flatten(0, 1));
      if (b.defined()) ExpectProduct(d[2], at::ones({rows}), G.flatten(0, 1));
      ExpectProduct(linear(X, weight, b), X, weight.t(), b);
    }
  }
}

TEST_F(LinearTest, GradientsThatAreNotWantedAreNotComputed) {
  const at::Tensor X = Input(kLarge).detach(), frozen = weight.detach();
  linear(X, frozen, bias).sum().backward();
  EXPECT_TRUE(bias.grad().eq(kLarge).all().item<bool>());
  linear(X, weight, bias.detach()).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  EXPECT_FALSE(linear(X, frozen, bias.detach()).requires_grad());
}

TEST_F(LinearTest, CanBeDifferentiatedTwice) {
  const at::Tensor X = Input(kLarge);
  const auto second = [&](const at::Tensor& Y) {
    const auto d = torch::autograd::grad({Y.pow(2).sum()}, {X, weight}, {}, true, /*create_graph=*/true);
    return torch::autograd::grad({d[0].pow(2).sum() + d[1].pow(2).sum()}, {X, weight, bias});
  };
  const auto ours = second(linear(X, weight, bias)), plain = second(at::linear(X, weight, bias));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    // Sums of a thousand terms of either sign in two orders.
    EXPECT_LT((ours[i] - plain[i]).norm().item<float>(), 1e-5 * plain[i].norm().item<float>());
  }
}

TEST_F(LinearTest, TheEngineFollowsTheShapeAndTheSwitch) {
  if (!HasBoth()) GTEST_SKIP() << "this processor or this LibTorch lacks one of the engines";
  EXPECT_TRUE(ByOneDnn(Input(kLarge)));
  EXPECT_FALSE(ByOneDnn(Input(kSmall)));
  at::globalContext().setUserEnabledMkldnn(false);
  EXPECT_FALSE(ByOneDnn(Input(kLarge)));
  at::globalContext().setUserEnabledMkldnn(true);
  const at::Tensor X = Input(kLarge).detach();
  EXPECT_EQ(linear(X.to(at::kDouble), weight.to(at::kDouble), bias.to(at::kDouble)).scalar_type(), at::kDouble);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::ScalarType type = linear(X, weight, bias).scalar_type();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_EQ(type, at::autocast::get_autocast_dtype(at::kCPU));
  EXPECT_TRUE(at::equal(linear(at::_neg_view(X), weight, bias), at::linear(X.neg(), weight, bias)));
}

TEST_F(LinearTest, BitsDependOnNeitherThreadsNorStridesNorOtherRows) {
  const at::Tensor X = Input(2 * kLarge), G = at::randn({2, kLarge, kOut});
  const auto both = [&](const at::Tensor& rows, const at::Tensor& upstream) {
    const at::Tensor Y = linear(rows, weight, bias);
    return std::vector<at::Tensor>{Y.detach(), torch::autograd::grad({Y}, {rows}, {upstream})[0]};
  };
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = both(X, G);
  at::set_num_threads(2);
  const auto two = both(X, G), half = both(X[0], G[0]),
             strided = both(at::cat({X, X}, -1).narrow(-1, 0, kIn), at::cat({G, G}, -1).narrow(-1, kOut, kOut));
  at::set_num_threads(before);
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(at::equal(one[i], two[i]));
    EXPECT_TRUE(at::equal(one[i], strided[i]));
    EXPECT_TRUE(at::equal(one[i][0], half[i]));
  }
}

TEST_F(LinearTest, WhatIsNotANumberStaysSo) {
  const at::Tensor X = Input(kLarge).detach();
  X[0][3][5] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor Y = linear(X, weight, bias);
  EXPECT_TRUE(Y[0][3].isnan().all().item<bool>());
  EXPECT_EQ(Y.isnan().sum().item<int64_t>(), kOut);
}

TEST_F(LinearTest, AnotherTypeThanTheWeightsIsRefusedInWords) {
  ExpectRefused([&] { linear(Input(kLarge).to(at::kDouble), weight, bias); },
                "X: expected Float as the weights of the layer have, got Double");
}

TEST_F(LinearTest, RefusesWhatLibTorchRefuses) {
  EXPECT_THROW(linear(at::randn({kLarge, kIn + 1}), weight, bias), c10::Error);
  EXPECT_THROW(linear(at::randn({kLarge, kIn}), weight, at::randn({kOut + 1})), c10::Error);
}

}  // namespace
}  // namespace heed::nn
