// Calls in the graph of derivatives: what is saved, freed, noticed and refused.
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "heed/nn/attention.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

struct Given {
  at::Tensor q = Random({2, 2, 5, 4}), k = Random({2, 2, 5, 4}), v = Random({2, 2, 5, 4});
};

TEST(AttentionDerivativeTest, SecondDerivativesAreWhatDifferencesSayAndThirdOnesRaise) {
  const Given in;
  const at::Tensor k = in.k.to(at::kDouble), v = in.v.to(at::kDouble), direction = at::cos(in.q.to(at::kDouble));
  const auto gradient = [&](const at::Tensor& q) {
    const at::Tensor loss = attention(q, k, v, AttentionOptions().softcap(2.0)).output.square().sum();
    return torch::autograd::grad({loss}, {q}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
  };
  const auto leaf = [&](double step) { return (in.q.to(at::kDouble) + step * direction).set_requires_grad(true); };
  const at::Tensor q = leaf(0), first = gradient(q);
  ASSERT_TRUE(first.requires_grad());
  const at::Tensor second = torch::autograd::grad({(first * direction).sum()}, {q}, {}, /*retain_graph=*/true,
                                                  /*create_graph=*/true)[0];
  constexpr double kStep = 1e-6;
  const at::Tensor differences = (gradient(leaf(kStep)) - gradient(leaf(-kStep))) / (2 * kStep);
  EXPECT_TRUE(at::allclose(second, differences, 1e-6, 1e-6));
  try {
    second.sum().backward();
    FAIL() << "a third derivative was returned";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("a third derivative was asked for"), std::string::npos) << error.what();
  }
}

TEST(AttentionDerivativeTest, TangentsPassWithAndWithoutGradients) {
  const Given in;
  const at::Tensor q = in.q.to(at::kDouble), k = in.k.to(at::kDouble), v = in.v.to(at::kDouble);
  const at::Tensor direction = at::cos(q), bias = at::sin(at::arange(25, at::kDouble)).view({5, 5}), of_bias = at::cos(bias);
  const auto along = [&](double step) {
    return attention(q + step * direction, k, v, AttentionOptions().bias(bias + step * of_bias));
  };
  constexpr double kStep = 1e-6;
  const AttentionOutput above = along(kStep), below = along(-kStep);
  const uint64_t level = torch::autograd::ForwardADLevel::get_next_idx();
  const auto dual = [&](const at::Tensor& tensor, const at::Tensor& tangent) {
    return at::_make_dual(tensor, tangent, static_cast<int64_t>(level));
  };
  for (const bool gradients : {false, true}) {
    const at::Tensor keys = k.clone().set_requires_grad(gradients);
    const AttentionOutput result = attention(dual(q, direction), keys, v, AttentionOptions().bias(dual(bias, of_bias)));
    EXPECT_EQ(result.output.requires_grad(), gradients);
    EXPECT_TRUE(at::allclose(result.output._fw_grad(0), (above.output - below.output) / (2 * kStep), 1e-7, 1e-7));
    EXPECT_TRUE(at::allclose(result.lse._fw_grad(0), (above.lse - below.lse) / (2 * kStep), 1e-7, 1e-7));
  }
  EXPECT_THROW(attention(dual(q, direction), k, v, AttentionOptions().return_statistics(true)), c10::NotImplementedError);
  EXPECT_THROW(attention(dual(q, direction), k, v, AttentionOptions().return_weights(true)), c10::NotImplementedError);
  const at::Tensor sinks = bias[0].narrow(0, 0, 2), of_sinks = of_bias[0].narrow(0, 0, 2);
  const auto with_sinks = [&](const at::Tensor& given) { return attention(q, k, v, AttentionOptions().sinks(given)).output; };
  EXPECT_TRUE(at::allclose(with_sinks(dual(sinks, of_sinks))._fw_grad(0),
                           (with_sinks(sinks + kStep * of_sinks) - with_sinks(sinks - kStep * of_sinks)) / (2 * kStep), 1e-7,
                           1e-7));
  torch::autograd::ForwardADLevel::release_idx(level);
  EXPECT_FALSE(attention(q, k, v).output._fw_grad(0).defined());
}

TEST(AttentionDerivativeTest, OnlyNeededGradientsAreReturned) {
  const Given in;
  const at::Tensor k = in.k.clone().set_requires_grad(true);
  attention(in.q, k, in.v).output.sum().backward();
  EXPECT_TRUE(k.grad().defined());
  EXPECT_FALSE(in.q.grad().defined());
  EXPECT_FALSE(attention(in.q, in.k, in.v).output.requires_grad());
  const at::Tensor without = [&] {
    const at::NoGradGuard no_grad;
    return attention(in.q, k, in.v).output;
  }();
  EXPECT_FALSE(without.requires_grad());
  EXPECT_TRUE(at::equal(without, attention(in.q, k, in.v).output.detach()));
}

TEST(AttentionDerivativeTest, ChangingAnInputBeforeBackwardIsNoticed) {
  const Given in;
  const at::Tensor q = in.q.clone().set_requires_grad(true), lengths = at::tensor({3, 5}, at::kLong);
  const at::Tensor output = attention(q, in.k, in.v, AttentionOptions().key_lengths(lengths)).output;
  lengths.fill_(1);
  EXPECT_THROW(output.sum().backward(), c10::Error);
}

TEST(AttentionDerivativeTest, AGraphIsFreedAfterABackwardPassUnlessItIsKept) {
  const Given in;
  const at::Tensor q = in.q.clone().set_requires_grad(true), bias = Random({2, 5, 5}).set_requires_grad(true);
  const at::Tensor output = attention(q, in.k, in.v, AttentionOptions().bias(bias)).output, weights = at::cos(in.v);
  const auto gradients = [&](bool keep) { return torch::autograd::grad({output}, {q, bias}, {weights}, keep); };
  const auto first = gradients(true), again = gradients(false);
  for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], again[i]));
  try {
    gradients(false);
    FAIL() << "what was saved is still there";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("second time"), std::string::npos) << error.what();
  }
}

TEST(AttentionDerivativeTest, ResultsDoNotKeepThemselvesAlive) {
  const Given in;
  const at::Tensor q = in.q.clone().set_requires_grad(true), bias = Random({2, 5, 5});
  const std::size_t q_uses = q.use_count(), k_uses = in.k.use_count(), bias_uses = bias.storage().use_count();
  for (const bool backward : {false, true}) {
    AttentionOutput result = attention(q, in.k, in.v, AttentionOptions().bias(bias));
    const auto output = result.output.storage().getWeakStorageImpl(), lse = result.lse.storage().getWeakStorageImpl();
    if (backward) result.output.sum().backward();
    result = {};
    EXPECT_TRUE(output.expired()) << backward;
    EXPECT_TRUE(lse.expired()) << backward;
    EXPECT_EQ(q.use_count(), q_uses);
    EXPECT_EQ(in.k.use_count(), k_uses);
    EXPECT_EQ(bias.storage().use_count(), bias_uses);
  }
}

TEST(AttentionDerivativeTest, AResultWithoutAGradientCountsAsZeros) {
  const Given in;
  const at::Tensor q = in.q.clone().set_requires_grad(true);
  const AttentionOutput result = attention(q, in.k, in.v);
  const auto of = [&](const std::vector<at::Tensor>& results, const std::vector<at::Tensor>& weights) {
    return torch::autograd::grad(results, {q}, weights, /*retain_graph=*/true).front();
  };
  const at::Tensor d_output = at::cos(result.output.detach()), d_lse = at::sin(result.lse.detach());
  const at::Tensor both = of({result.output, result.lse}, {d_output, d_lse});
  EXPECT_TRUE(at::allclose(of({result.output}, {d_output}) + of({result.lse}, {d_lse}), both, 1e-12, 1e-12));
}

}  // namespace
}  // namespace heed::nn
