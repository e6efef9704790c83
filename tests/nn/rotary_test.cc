// Rotation as a differentiable function of tensors.
#include "heed/nn/rotary.h"

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "gradient_check.h"
#include "heed/error.h"
#include "tests/error_text.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

RotaryFrequencies Frequencies(int64_t rotary_dim, RotaryScaling scaling = {}) {
  return ComputeRotaryFrequencies({rotary_dim, 10000.0, std::move(scaling), Angles::kFloat64});
}

RotaryTables Tables(int64_t rotary_dim, int64_t steps) {
  return rotary_tables(Frequencies(rotary_dim), at::arange(steps, at::kLong), at::kDouble);
}

// The half layout, out of plain tensor operations; cos and sin broadcast.
at::Tensor Plain(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t pairs = cos.size(-1), width = x.size(3);
  const at::Tensor a = x.narrow(3, 0, pairs), b = x.narrow(3, pairs, pairs);
  return at::cat({a * cos - b * sin, b * cos + a * sin, x.narrow(3, 2 * pairs, width - 2 * pairs)}, 3);
}

TEST(RotaryTest, EqualsPlainOperations) {
  at::manual_seed(1);
  const at::Tensor x = Random({2, 3, 5, 9}), positions = at::tensor({3, 0, 7, 7, 1, 2, 2, 6, 0, 5}, at::kLong).view({2, 5});
  const RotaryTables all = Tables(6, 8), rows = rotary_tables(Frequencies(6), positions, at::kDouble);
  const at::Tensor expected = Plain(x, rows.cos.unsqueeze(1), rows.sin.unsqueeze(1));
  EXPECT_TRUE(at::allclose(apply_rotary(x, rows.cos, rows.sin), expected, 0, 1e-15));
  EXPECT_TRUE(at::equal(apply_rotary(x, all.cos, all.sin, {}, positions), apply_rotary(x, rows.cos, rows.sin)));
  EXPECT_FALSE(at::allclose(apply_rotary(x, rows.cos, rows.sin, {RotaryLayout::kInterleaved, false}), expected));
  const at::Tensor narrow = apply_rotary(x.to(at::kBFloat16), rows.cos, rows.sin);
  EXPECT_TRUE(at::equal(narrow, Plain(x.to(at::kBFloat16).to(at::kFloat), rows.cos.unsqueeze(1).to(at::kFloat),
                                      rows.sin.unsqueeze(1).to(at::kFloat))
                                    .to(at::kBFloat16)));
}

TEST(RotaryTest, DerivativesAreInverseRotations) {
  at::manual_seed(2);
  const RotaryTables tables = Tables(4, 3);
  for (const RotaryLayout layout : {RotaryLayout::kHalf, RotaryLayout::kInterleaved}) {
    const auto rotate = [&](const std::vector<at::Tensor>& x) {
      return apply_rotary(x[0], 1.3 * tables.cos, 1.3 * tables.sin, {layout, false});
    };
    testing::ExpectGradientsMatch(rotate, {Random({2, 2, 3, 5})});
    // The gradient of a square, differentiated once more.
    const auto gradient = [&](const std::vector<at::Tensor>& x) {
      const at::Tensor y = x[0].requires_grad() ? x[0] : x[0].detach().set_requires_grad(true);
      const at::AutoGradMode enable(true);
      return torch::autograd::grad({rotate({y}).pow(3).sum()}, {y}, {}, true, /*create_graph=*/true)[0];
    };
    testing::ExpectGradientsMatch(gradient, {Random({1, 2, 3, 5})});
  }
}

TEST(RotaryTest, RefusalsNameTheArgument) {
  const at::Tensor x = Random({2, 3, 5, 8});
  const RotaryTables tables = Tables(8, 5);
  const auto refusal = [&](const at::Tensor& input, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& positions) {
    return WhatOf<InvalidArgument>([&] { apply_rotary(input, cos, sin, {}, positions); });
  };
  const at::Tensor none, learned = tables.cos.clone().set_requires_grad(true);
  EXPECT_EQ(refusal(x[0], tables.cos, tables.sin, none).rfind("x:", 0), 0u);
  EXPECT_EQ(refusal(x.to(at::kLong), tables.cos, tables.sin, none).rfind("x:", 0), 0u);
  EXPECT_EQ(refusal(none, tables.cos, tables.sin, none).rfind("x:", 0), 0u);
  EXPECT_EQ(refusal(x, learned, tables.sin, none).rfind("cos:", 0), 0u);
  EXPECT_EQ(refusal(x, tables.cos, learned, none).rfind("sin:", 0), 0u);
  EXPECT_EQ(refusal(x, tables.cos, tables.sin, at::full({1, 5}, 5, at::kLong)).rfind("positions: expected numbers in 0..4", 0),
            0u);
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { rotary_tables(Frequencies(4), at::zeros({3}), at::kFloat); }).rfind("positions:", 0),
            0u);
  EXPECT_EQ(
      WhatOf<InvalidArgument>([&] { rotary_tables(Frequencies(4), at::zeros({3}, at::kLong), at::kHalf); }).rfind("type:", 0),
      0u);
}

}  // namespace
}  // namespace heed::nn
