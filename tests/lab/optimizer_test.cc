#include "lab/training/optimizer.h"

#include <cmath>

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace heed::lab {
namespace {

TrainOptions Recipe() {
  TrainOptions options;
  options.lr = 1e-2;
  options.min_lr = 1e-3;
  options.warmup = 10;
  options.steps = 110;
  return options;
}

TEST(LearningRate, WarmsUpThenFollowsHalfACosine) {
  const TrainOptions options = Recipe();
  EXPECT_DOUBLE_EQ(LearningRate(options, 0), 1e-2 / 11);
  EXPECT_DOUBLE_EQ(LearningRate(options, 9), 1e-2 * 10 / 11);
  EXPECT_DOUBLE_EQ(LearningRate(options, 10), 1e-2);
  EXPECT_DOUBLE_EQ(LearningRate(options, 60), (1e-2 + 1e-3) / 2);
  EXPECT_DOUBLE_EQ(LearningRate(options, 110), 1e-3);
  for (int64_t step = 11; step < 110; ++step) EXPECT_LT(LearningRate(options, step), LearningRate(options, step - 1));
}

TEST(LearningRate, WarmsUpOverAFifthUnlessTold) {
  TrainOptions options = Recipe();
  options.warmup = -1;
  EXPECT_EQ(WarmUp(options), 22);
  EXPECT_DOUBLE_EQ(LearningRate(options, 0), 1e-2 / 23);
  EXPECT_DOUBLE_EQ(LearningRate(options, 22), 1e-2);
}

TEST(LearningRate, IsDefinedWhenTheWarmUpIsTheWholeRun) {
  TrainOptions options = Recipe();
  options.warmup = options.steps;
  EXPECT_LT(LearningRate(options, options.steps - 1), options.lr);
  EXPECT_DOUBLE_EQ(LearningRate(options, options.steps), options.min_lr);
}

// The update of the paper, one number at a time, in double.
struct Expected {
  double value, average = 0.0, square = 0.0;

  void Step(double gradient, double decay, const TrainOptions& options, int64_t step) {
    const double lr = LearningRate(options, step), count = static_cast<double>(step + 1);
    average = options.beta1 * average + (1 - options.beta1) * gradient;
    square = options.beta2 * square + (1 - options.beta2) * gradient * gradient;
    const double mean = average / (1 - std::pow(options.beta1, count)),
                 variance = square / (1 - std::pow(options.beta2, count));
    value -= lr * decay * value + lr * mean / (std::sqrt(variance) + 1e-8);
  }
};

TEST(AdamW, FollowsThePaperAndDecaysMatricesOnly) {
  const TrainOptions options = Recipe();
  at::Tensor matrix = at::full({3, 5}, 0.7).set_requires_grad(true), vector = at::full({4}, 0.7).set_requires_grad(true);
  AdamW optimizer({{"matrix", matrix}, {"vector", vector}}, options);
  Expected expected_matrix{0.7}, expected_vector{0.7};
  for (int64_t step = 0; step < 20; ++step) {
    const double gradient = std::sin(static_cast<double>(step) + 1.0);
    optimizer.ClearGradients();
    matrix.mutable_grad() = at::full({3, 5}, gradient);
    vector.mutable_grad() = at::full({4}, gradient);
    optimizer.Step(step);
    expected_matrix.Step(gradient, options.weight_decay, options, step);
    expected_vector.Step(gradient, 0.0, options, step);
  }
  // float32 state over 20 steps of size 1e-2: a few units in the last place of 0.7 each.
  for (int64_t i = 0; i < 15; ++i) EXPECT_NEAR(matrix.flatten()[i].item<double>(), expected_matrix.value, 2e-6);
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(vector[i].item<double>(), expected_vector.value, 2e-6);
  EXPECT_GT(std::abs(expected_matrix.value - expected_vector.value), 1e-5);
}

TEST(AdamW, WhatStartsAtZeroLearnsAtARateOfItsOwnAndDoesNotDecay) {
  TrainOptions options = Recipe();
  options.zero_rate = 7;
  at::Tensor table = at::zeros({2, 3}).set_requires_grad(true), bias = at::zeros({4}).set_requires_grad(true);
  at::Tensor matrix = at::full({2, 3}, 0.5).set_requires_grad(true);
  AdamW optimizer({{"table", table}, {"bias", bias}, {"matrix", matrix}}, options);
  TrainOptions faster = options;
  faster.lr *= 7, faster.min_lr *= 7;
  Expected expected{0}, expected_matrix{0.5};
  for (int64_t step = 0; step < 20; ++step) {
    const double gradient = std::sin(static_cast<double>(step) + 1.0);
    optimizer.ClearGradients();
    for (at::Tensor* parameter : {&table, &bias, &matrix}) parameter->mutable_grad() = at::full(parameter->sizes(), gradient);
    optimizer.Step(step);
    expected.Step(gradient, 0.0, faster, step);
    expected_matrix.Step(gradient, options.weight_decay, options, step);
  }
  // As above, where the steps are seven times as long.
  for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(table.flatten()[i].item<double>(), expected.value, 1.4e-5);
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(bias[i].item<double>(), expected.value, 1.4e-5);
  for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(matrix.flatten()[i].item<double>(), expected_matrix.value, 2e-6);
}

TEST(AdamW, ClipsTheNormOfAllGradientsTogether) {
  at::Tensor a = at::zeros({2, 2}).set_requires_grad(true), b = at::zeros({1}).set_requires_grad(true);
  AdamW optimizer({{"a", a}, {"b", b}}, Recipe());
  a.mutable_grad() = at::full({2, 2}, 2.0);  // norm 4
  b.mutable_grad() = at::full({1}, 3.0);     // together 5
  EXPECT_NEAR(optimizer.ClipGradients(10.0), 5.0, 1e-6);
  EXPECT_NEAR(b.grad().item<double>(), 3.0, 1e-6);
  EXPECT_NEAR(optimizer.ClipGradients(0.0), 5.0, 1e-6);
  EXPECT_NEAR(b.grad().item<double>(), 3.0, 1e-6);
  EXPECT_NEAR(optimizer.ClipGradients(1.0), 5.0, 1e-6);
  EXPECT_NEAR(a.grad()[0][0].item<double>(), 0.4, 1e-6);
  EXPECT_NEAR(b.grad().item<double>(), 0.6, 1e-6);
}

TrainOptions Free() {
  TrainOptions options = Recipe();
  options.schedule = "free", options.steps = 7;
  return options;
}

TEST(LearningRate, StaysWithoutASchedule) {
  TrainOptions options = Free();
  EXPECT_DOUBLE_EQ(LearningRate(options, 0), 1e-2 / 11);
  for (const int64_t step : {10, 50, 100000}) EXPECT_DOUBLE_EQ(LearningRate(options, step), 1e-2);
  options.warmup = -1;
  EXPECT_EQ(WarmUp(options), 100) << "whatever the steps";
}

// Algorithm 1 of Defazio et al. 2024 in its own words: z moves by the gradient at y, x is the mean of all z.
TEST(AdamW, WithoutAScheduleFollowsThePaper) {
  const TrainOptions options = Free();
  at::Tensor matrix = at::full({3, 5}, 0.7).set_requires_grad(true);
  AdamW optimizer({{"matrix", matrix}}, options);
  double x = 0.7, y = 0.7, z = 0.7, square = 0, weights = 0;
  for (int64_t step = 0; step < 40; ++step) {
    const double gradient = std::sin(static_cast<double>(step)) + y, rate = LearningRate(options, step);
    optimizer.ClearGradients();
    matrix.mutable_grad() = at::full({3, 5}, gradient);
    optimizer.Step(step);
    square = options.beta2 * square + (1 - options.beta2) * gradient * gradient;
    const double size = std::sqrt(square / (1 - std::pow(options.beta2, static_cast<double>(step + 1)))) + 1e-8;
    z -= rate * options.weight_decay * z + rate * gradient / size;
    weights += rate * rate;
    x += rate * rate / weights * (z - x);
    y = (1 - options.beta1) * z + options.beta1 * x;
    EXPECT_NEAR(matrix[0][0].item<double>(), y, 2e-6) << step;
  }
  optimizer.UseMeans();
  EXPECT_NEAR(matrix[2][4].item<double>(), x, 2e-6);
  EXPECT_GT(std::abs(x - y), 1e-4);
  optimizer.UsePoints();
  EXPECT_NEAR(matrix[2][4].item<double>(), y, 2e-6);
  EXPECT_EQ(optimizer.State().size(), 4u);
}

TEST(AdamW, WithAScheduleTheWeightsToUseAreThoseThatLearn) {
  at::Tensor matrix = at::full({2, 2}, 0.5).set_requires_grad(true);
  AdamW optimizer({{"matrix", matrix}}, Recipe());
  matrix.mutable_grad() = at::full({2, 2}, 1.0);
  optimizer.Step(0);
  const at::Tensor before = matrix.detach().clone();
  optimizer.UseMeans();
  EXPECT_TRUE(before.equal(matrix));
  EXPECT_EQ(optimizer.State().size(), 2u);
}

}  // namespace
}  // namespace heed::lab
