// Dropout of activations as a module: PyTorch's law, on heed's counters.
#include <cmath>
#include <string>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include "heed/error.h"
#include "heed/nn/dropout.h"
#include "heed/nn/encoders.h"

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

// Rows of a batch, computed alone, are dropped as in the whole: inputs, what layers add, attention weights, and gradients.
TEST(DropoutTest, RowsOfABatchAloneAreDroppedAsWithinIt) {
  constexpr int64_t kBatch = 5, kSteps = 7, kWidth = 12;
  torch::manual_seed(1);
  for (const std::string& name : EncoderNames()) {
    EncoderOptions options(kWidth);
    options.layers(2).ffn_width(20).heads(2).dropout(0.3).causal(true);
    options.position().max_distance = 4;
    const auto encoder = MakeEncoder(name, options);
    encoder->to(at::kDouble);
    const at::Tensor X = at::randn({kBatch, kSteps, kWidth}, at::kDouble);
    const auto gradients = [&](int64_t begin, int64_t end) {
      torch::manual_seed(2);
      const FirstBatchRow row(begin);
      const at::Tensor part = X.slice(0, begin, end).clone().requires_grad_(true);
      const at::Tensor Y = encoder->forward(part);
      return at::stack({Y.detach(), torch::autograd::grad({Y.square().sum()}, {part})[0]});
    };
    const at::Tensor whole = gradients(0, kBatch);
    for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 2}, {2, 5}, {3, 4}}) {
      EXPECT_TRUE(at::allclose(gradients(begin, end), whole.slice(1, begin, end), 1e-10, 1e-12)) << name << " " << begin;
    }
    EXPECT_FALSE(at::allclose(gradients(0, 1), gradients(1, 2), 1e-3, 1e-3)) << name;
  }
  EXPECT_EQ(first_batch_row(), 0);
  EXPECT_THROW(FirstBatchRow(-1), InvalidArgument);
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
