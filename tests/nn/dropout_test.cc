// Dropout of activations as a module: PyTorch's law, on heed's counters.
#include <cmath>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include "heed/error.h"
#include "heed/nn/dropout.h"

namespace heed::nn {
namespace {

TEST(DropoutTest, KeepsAndScalesInTrainingAndDoesNothingInEvaluation) {
  Dropout dropout(0.25);
  const at::Tensor X = at::ones({64, 257});
  const at::Tensor Y = dropout(X);
  const at::Tensor kept = Y.ne(0);
  EXPECT_TRUE(Y.masked_select(kept).eq(1 / 0.75f).all().item<bool>());
  EXPECT_NEAR(kept.to(at::kDouble).mean().item<double>(), 0.75, 4 * std::sqrt(0.75 * 0.25 / (64 * 257)));
  EXPECT_FALSE(at::equal(Y, dropout(X)));
  dropout->eval();
  EXPECT_TRUE(dropout(X).is_same(X));
}

TEST(DropoutTest, FollowsPyTorchsSeedAndNotTheNumberOfThreads) {
  Dropout dropout(0.5);
  const at::Tensor X = at::randn({300, 511}).transpose(0, 1);  // not contiguous
  const int before = at::get_num_threads();
  torch::manual_seed(3);
  at::set_num_threads(1);
  const at::Tensor one = dropout(X);
  torch::manual_seed(3);
  at::set_num_threads(2);
  const at::Tensor two = dropout(X);
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(one, two));
  EXPECT_TRUE(at::equal(one, at::where(one.ne(0), X * 2, at::zeros({}))));
}

TEST(DropoutTest, TheGradientSeesTheSameMaskAndCanBeDifferentiated) {
  Dropout dropout(0.4);
  const at::Tensor X = at::randn({40, 33}, at::kDouble).requires_grad_(true);
  const at::Tensor Y = dropout(X), weights = at::randn_like(X).requires_grad_(true);
  const at::Tensor d_X = torch::autograd::grad({(Y * weights).sum()}, {X}, {}, true, /*create_graph=*/true)[0];
  const at::Tensor mask = (Y / X).detach();
  EXPECT_TRUE(at::allclose(d_X, mask * weights, 1e-15, 1e-15));
  const at::Tensor d_weights = torch::autograd::grad({d_X.sum()}, {weights})[0];
  EXPECT_TRUE(at::allclose(d_weights, mask, 1e-15, 1e-15));
}

TEST(DropoutTest, OtherTypesGoToPyTorch) {
  Dropout dropout(0.5);
  const at::Tensor Y = dropout(at::ones({64, 64}, at::kBFloat16));
  EXPECT_EQ(Y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(Y.eq(0).logical_or(Y.eq(2)).all().item<bool>());
  EXPECT_TRUE(Y.eq(0).any().item<bool>());
}

TEST(DropoutTest, AllOrNothing) {
  const at::Tensor X = at::randn({5, 5});
  EXPECT_TRUE(Dropout(0.0)(X).is_same(X));
  EXPECT_TRUE(Dropout(1.0)(X).eq(0).all().item<bool>());
  EXPECT_THROW(Dropout(1.5), InvalidArgument);
  EXPECT_THROW(drop_elements(X, -0.1, true), InvalidArgument);
}

}  // namespace
}  // namespace heed::nn
