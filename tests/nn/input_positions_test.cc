// What is added to the input for positions that a call lists.
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>

#include "heed/nn/positional_encoding.h"
#include "heed/nn/random_fourier.h"
#include "refusal.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

TEST(PositionalEncodingTest, StepsStandWhereTheCallerSays) {
  PositionalEncoding encoding(6, 0.0, 8);
  const at::Tensor X = at::randn({2, 3, 6}), P = encoding->P()[0];
  const at::Tensor whole = at::tensor({5, 0, 7, 1, 2, 2}, at::kLong).view({2, 3});
  const at::Tensor rows = P.index_select(0, whole.flatten()).view({2, 3, 6});
  EXPECT_TRUE(at::equal(encoding(X, 0, whole), X + rows));
  EXPECT_TRUE(at::equal(encoding(X, 0, whole.to(at::kDouble)), X + rows));
  EXPECT_TRUE(at::equal(encoding(X, 0, whole[0]), X + rows[0]));
  EXPECT_TRUE(at::equal(encoding(X, 0, whole.slice(0, 0, 1)), X + rows[0]));
  // Between two rows, and far beyond max_len.
  const at::Tensor times = at::tensor({0.5, -3.25, 1e6}, at::kDouble);
  const at::Tensor angles = times.unsqueeze(1) * at::pow(10000.0, -at::arange(3, at::kDouble) / 3.0);
  const at::Tensor expected = at::stack({angles.sin(), angles.cos()}, 2).flatten(1).to(at::kFloat);
  EXPECT_TRUE(at::allclose(encoding(at::zeros({1, 3, 6}), 0, times)[0], expected, 0, 1e-7));
  const at::Tensor wide = encoding(at::zeros({1, 3, 6}, at::kDouble), 0, times)[0];
  EXPECT_TRUE(at::allclose(wide, at::stack({angles.sin(), angles.cos()}, 2).flatten(1), 0, 1e-9));
  torch::nn::AnyModule any(encoding);
  EXPECT_TRUE(at::equal(any.forward(X), X + P.slice(0, 0, 3)));
}

TEST(PositionalEncodingTest, RefusesPositionsThatDoNotFit) {
  PositionalEncoding encoding(6, 0.0, 8);
  const at::Tensor X = at::randn({2, 3, 6}), row = at::arange(3, at::kLong);
  ExpectRefused([&] { encoding(X, 1, row); }, {"offset", "not both"});
  ExpectRefused([&] { encoding(X, 0, at::arange(4, at::kLong)); }, {"positions", "[3] or [2, 3], got [4]"});
  ExpectRefused([&] { encoding(X, 0, row.expand({3, 3})); }, {"positions", "got [3, 3]"});
  ExpectRefused([&] { encoding(X, 0, row.to(at::kFloat)); }, {"positions", "int64 or float64"});
  ExpectRefused([&] { encoding(X, 0, row.to(at::kDouble).set_requires_grad(true)); }, {"positions", "no gradient"});
  ExpectRefused([&] { encoding(X, 0, row / 0.0 * at::ones({3}, at::kDouble)); }, {"positions", "finite"});
}

TEST(LearnedPositionsTest, RowsAreWhatTheCallerSays) {
  LearnedPositions error(6, 0.0, 4), clamped(6, 0.0, 4, LengthPolicy::kClamp);
  const at::Tensor X = at::randn({2, 3, 6}), rows = at::tensor({3, 0, 0, 1, 2, 3}, at::kLong).view({2, 3});
  const at::Tensor expected = X + error->weight.index_select(0, rows.flatten()).view({2, 3, 6});
  EXPECT_TRUE(at::equal(error(X, 0, rows), expected));
  EXPECT_TRUE(at::equal(error(X, 0, rows[1])[1], expected[1]));
  EXPECT_TRUE(at::equal(clamped(X, 0, rows[1] + 3)[0], X[0] + clamped->weight[3]));
  ExpectRefused([&] { error(X, 0, rows + 1); }, {"positions", "0..3, got 1..4"});
  ExpectRefused([&] { clamped(X, 0, rows - 1); }, {"positions", "got -1..2"});
  ExpectRefused([&] { error(X, 0, rows.to(at::kDouble)); }, {"positions", "int64"});
  ExpectRefused([&] { error(X, 0, rows.slice(1, 1)); }, {"positions", "[3] or [2, 3], got [2, 2]"});
  ExpectRefused([&] { error(X, 1, rows); }, {"offset", "not both"});
}

TEST(RandomFourierTest, AddsWavesOfItsFrequencies) {
  at::manual_seed(5);
  RandomFourier encoding(64, 2, 3.0);
  EXPECT_EQ(encoding->named_buffers().keys(), std::vector<std::string>{"frequencies"});
  EXPECT_TRUE(encoding->parameters().empty());
  EXPECT_EQ(encoding->frequencies.sizes(), at::IntArrayRef({2, 32}));
  EXPECT_NEAR(encoding->frequencies.std().item<double>(), 3.0, 0.8);
  const at::Tensor X = at::randn({2, 5, 64}), places = at::rand({2, 5, 2}, at::kDouble);
  const at::Tensor angles = 2 * std::numbers::pi * at::matmul(places, encoding->frequencies.to(at::kDouble));
  const at::Tensor expected = X + at::cat({angles.cos(), angles.sin()}, 2).to(at::kFloat);
  EXPECT_TRUE(at::allclose(encoding(X, places), expected, 0, 1e-6));
  EXPECT_TRUE(at::allclose(encoding(X, places[0])[0], expected[0], 0, 1e-6));
  EXPECT_EQ(encoding(X.to(at::kBFloat16), places).scalar_type(), at::kBFloat16);
  const auto copy = std::dynamic_pointer_cast<RandomFourierImpl>(encoding->clone());
  EXPECT_TRUE(at::equal(copy->forward(X, places), encoding(X, places)));
  RandomFourier trained(6, 2, 1.0, /*trainable=*/true);
  EXPECT_EQ(trained->named_parameters().keys(), std::vector<std::string>{"frequencies"});
  trained(at::zeros({1, 5, 6}), places[0]).pow(3).sum().backward();
  EXPECT_GT(trained->frequencies.grad().abs().max().item<float>(), 0.0f);
  RandomFourier line(8);
  const at::Tensor row = at::rand({2, 5}, at::kDouble), Y = at::zeros({2, 5, 8});
  EXPECT_TRUE(at::equal(line(Y, row), line(Y, row.unsqueeze(2))));
  EXPECT_TRUE(at::equal(line(Y, row[1])[0], line(Y, row)[1]));
  // The inner product of two encodings depends on the difference of their positions alone.
  const at::Tensor here = line(Y, row)[0], there = line(Y, row + 0.7)[0];
  EXPECT_TRUE(at::allclose(at::mm(here, here.t()), at::mm(there, there.t()), 0, 1e-5));
}

// A position of 2000 turns tells a frequency from itself rounded to 16 bits; a table that was rounded once stays so.
TEST(InputPositionsTest, CastsTo16BitsAndBackRoundNothing) {
  for (const at::ScalarType narrow : {at::kBFloat16, at::kHalf}) {
    PositionalEncoding sines(6, 0.0, 2000);
    RandomFourier waves(6), trained(6, 1, 1.0, /*trainable=*/true);
    const at::Tensor P = sines->P().clone(), drawn = waves->frequencies.clone(), of = trained->frequencies.detach().clone();
    torch::nn::Sequential model(sines, waves, trained);
    const at::Tensor X = at::randn({1, 3, 6}), far = at::arange(2000, 2003, at::kLong);
    const at::Tensor turned = waves(X, far), rows = sines(X, 1990);
    const auto expect_whole = [&](at::ScalarType type) {
      EXPECT_TRUE(at::equal(sines->P(), P.to(type))) << narrow;
      EXPECT_TRUE(at::equal(waves->frequencies, drawn.to(type))) << narrow;
      EXPECT_TRUE(at::equal(trained->frequencies, of.to(type))) << narrow;
    };
    model->to(narrow);
    expect_whole(at::kFloat);
    const at::Tensor same = waves(X.to(narrow), far).to(at::kFloat);
    EXPECT_LT((same - turned).abs().max().item<double>(), 0.04) << narrow;
    model->to(at::Device(at::kCPU), narrow);
    expect_whole(at::kFloat);
    model->to(at::kFloat);
    EXPECT_TRUE(at::equal(waves(X, far), turned)) << narrow;
    EXPECT_TRUE(at::equal(sines(X, 1990), rows)) << narrow;
    model->to(at::kDouble);
    expect_whole(at::kDouble);
  }
}

TEST(RandomFourierTest, RefusalsNameTheArgument) {
  RandomFourier encoding(8, 2);
  const at::Tensor X = at::zeros({2, 5, 8});
  ExpectRefused([&] { encoding(X.slice(2, 1), at::zeros({5, 2}, at::kLong)); }, {"X", "steps, 8]"});
  ExpectRefused([&] { encoding(X, at::zeros({5, 3}, at::kLong)); }, {"positions", "[2, 5, 2], got [5, 3]"});
  ExpectRefused([&] { encoding(X, at::zeros({5}, at::kLong)); }, {"positions", "got [5]"});
  ExpectRefused([&] { encoding(X, at::zeros({5, 2})); }, {"positions", "int64 or float64"});
  ExpectRefused([&] { encoding(X, at::Tensor()); }, "positions");
  ExpectRefused([&] { encoding(X, at::full({5, 2}, NAN, at::kDouble)); }, "positions: expected finite numbers");
  ExpectRefused([] { RandomFourier(7); }, "even width");
  ExpectRefused([] { RandomFourier(8, 0); }, "axes > 0");
}

}  // namespace
}  // namespace heed::nn
