// The layers around attention against their formulas in double precision, and what they refuse.
#include "heed/layers.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/positional_encoding.h"
#include "tests/error_text.h"

namespace heed {
namespace {

// A feed-forward network of one number: dense2 passes on what the activation leaves.
float Activated(Activation activation, float x) {
  PositionWiseFFN ffn(1, 1, activation);
  const std::vector<float> one{1}, zero{0};
  LoadWeights(ffn.parameters(), {{"dense1.weight", {{1, 1}, one}},
                                 {"dense1.bias", {{1}, zero}},
                                 {"dense2.weight", {{1, 1}, one}},
                                 {"dense2.bias", {{1}, zero}}});
  float y = 0;
  SerialExecutor serial;
  ffn.Forward(View<const float, 2>::Contiguous(&x, {1, 1}), View<float, 2>::Contiguous(&y, {1, 1}), serial);
  return y;
}

TEST(LayersTest, Activations) {
  for (const float x : {-4.0f, -0.75f, 0.0f, 0.5f, 3.0f}) {
    EXPECT_EQ(Activated(Activation::kRelu, x), std::max(x, 0.0f));
    EXPECT_NEAR(Activated(Activation::kGelu, x), x * 0.5 * std::erfc(-double{x} / std::sqrt(2.0)), 1e-6);
    const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(double{x}, 3));
    EXPECT_NEAR(Activated(Activation::kGeluTanh, x), x * 0.5 * (1 + std::tanh(inner)), 1e-6);
  }
  EXPECT_TRUE(std::isnan(Activated(Activation::kRelu, std::numeric_limits<float>::quiet_NaN())));
}

TEST(LayersTest, LayerNormIsTheFormula) {
  LayerNorm norm(3, 0.1);
  const std::vector<float> weight{1, 2, 3}, bias{-1, 0, 1};
  LoadWeights(norm.parameters(), {{"weight", {{3}, weight}}, {"bias", {{3}, bias}}});
  std::array<float, 6> x{1, 2, 6, -5, 0, 5};
  const std::array<float, 6> before = x;
  const auto rows = View<float, 2>::Contiguous(x.data(), {2, 3});
  norm.Forward(rows, rows);  // in place
  for (int r = 0; r < 2; ++r) {
    const double mean = (before[3 * r] + before[3 * r + 1] + before[3 * r + 2]) / 3.0;
    double variance = 0;
    for (int c = 0; c < 3; ++c) variance += std::pow(before[3 * r + c] - mean, 2) / 3.0;
    for (int c = 0; c < 3; ++c) {
      EXPECT_NEAR(x[3 * r + c], (before[3 * r + c] - mean) / std::sqrt(variance + 0.1) * weight[c] + bias[c], 1e-6);
    }
  }
}

TEST(LayersTest, EmbeddingsAreRowsAndUnknownTokensAreRefused) {
  Embedding embedding(3, 2);
  const std::vector<float> rows{1, 2, 3, 4, 5, 6};
  EXPECT_FALSE(embedding.weight().present());
  LoadWeights(embedding.parameters(), {{"weight", {{3, 2}, rows}}});
  std::array<float, 4> y{};
  const std::array<int32_t, 2> tokens{2, 0}, beyond{0, 3}, negative{-1, 0};
  const auto out = View<float, 2>::Contiguous(y.data(), {2, 2});
  embedding.Forward(View<const int32_t, 1>::Contiguous(tokens.data(), {2}), 10.0f, out);
  EXPECT_EQ(y, (std::array<float, 4>{50, 60, 10, 20}));
  for (const auto& wrong : {beyond, negative}) {
    EXPECT_NE(WhatOf<InvalidArgument>([&] {
                embedding.Forward(View<const int32_t, 1>::Contiguous(wrong.data(), {2}), 1.0f, out);
              }).find("tokens: expected numbers in 0..2"),
              std::string::npos);
  }
  EXPECT_EQ(y, (std::array<float, 4>{50, 60, 10, 20}));
}

TEST(LayersTest, PositionsBeyondATableFollowThePolicy) {
  std::vector<float> x(2 * 4, 0.0f), extended(8), clamped(8);
  const auto X = View<const float, 3>::Contiguous(x.data(), {1, 2, 4});
  const auto to = [](std::vector<float>& numbers) { return View<float, 3>::Contiguous(numbers.data(), {1, 2, 4}); };
  const PositionalEncoding whole(4, 20), extends(4, 5, LengthPolicy::kExtend), clamps(4, 5, LengthPolicy::kClamp),
      refuses(4, 5);
  extends.Forward(X, to(extended), 10);
  clamps.Forward(X, to(clamped), 4);
  for (int c = 0; c < 4; ++c) {
    EXPECT_EQ(extended[c], whole.P()(10, c));
    EXPECT_EQ(extended[4 + c], whole.P()(11, c));
    EXPECT_EQ(clamped[c], whole.P()(4, c));
    EXPECT_EQ(clamped[4 + c], whole.P()(4, c));
  }
  EXPECT_NE(
      WhatOf<InvalidArgument>([&] { refuses.Forward(X, to(clamped), 4); }).find("2 steps from offset 4 on, but max_len is 5"),
      std::string::npos);
  EXPECT_NE(WhatOf<InvalidArgument>([&] { refuses.Forward(X, to(clamped), -1); }).find("offset: expected 0 or more"),
            std::string::npos);
  EXPECT_NE(WhatOf<InvalidArgument>([&] {
              refuses.Forward(X, to(clamped), std::numeric_limits<int64_t>::max());
            }).find("max_len is 5"),
            std::string::npos);
  EXPECT_NE(WhatOf<InvalidArgument>([] { LearnedPositions(4, 5, LengthPolicy::kExtend); }).find("cannot be extended"),
            std::string::npos);
}

}  // namespace
}  // namespace heed
