// Rotary positions that fade with the distance.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/nn/multi_head_attention.h"
#include "heed/nn/rotations.h"
#include "refusal.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

// As the paper has it: queries grow by zeta^(position / scale_base) and keys fall by it, which short texts bear in double.
at::Tensor XPosFormula(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, double scale_base, RotaryLayout layout) {
  const int64_t steps = q.size(2), width = q.size(3);
  const Rotary rotary(width, RotaryOptions{}, layout);
  const at::Tensor zeta =
      (at::arange(0, width, 2, at::kDouble) + 0.4 * static_cast<double>(width)) / (1.4 * static_cast<double>(width));
  const at::Tensor columns = layout == RotaryLayout::kHalf ? at::cat({zeta, zeta}) : zeta.repeat_interleave(2);
  const at::Tensor powers = columns.pow(at::arange(steps, at::kDouble).unsqueeze(1) / scale_base);
  const auto [query, key] = rotary->rotate(q, k, int64_t{0}, int64_t{0});
  const at::Tensor scores =
      at::matmul(query * powers, (key / powers).transpose(-2, -1)) / std::sqrt(static_cast<double>(width));
  const at::Tensor hidden = at::ones({steps, steps}, at::kBool).triu(1);
  return at::matmul(at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1), v);
}

TEST(XPosTest, EqualsItsFormulaAndItsGradients) {
  at::manual_seed(32);
  for (const RotaryLayout layout : {RotaryLayout::kHalf, RotaryLayout::kInterleaved}) {
    const auto operand_of = [] { return Random({2, 2, 40, 8}).set_requires_grad(true); };
    const std::vector<at::Tensor> x{operand_of(), operand_of(), operand_of()};
    const XPos scheme(8, 10000.0, 16.0, layout);
    EXPECT_TRUE(scheme->parameters().empty() && scheme->buffers().empty());
    const at::Tensor ours = attention(x[0], x[1], x[2], AttentionOptions().causal(true).position(scheme)).output;
    const at::Tensor expected = XPosFormula(x[0], x[1], x[2], 16.0, layout), weight = at::randn_like(expected);
    EXPECT_TRUE(at::allclose(ours, expected, 0, 1e-11));
    const auto found = torch::autograd::grad({ours}, x, {weight}), right = torch::autograd::grad({expected}, x, {weight});
    for (std::size_t operand = 0; operand < x.size(); ++operand)
      EXPECT_TRUE(at::allclose(found[operand], right[operand], 1e-10, 1e-11)) << operand;
  }
}

TEST(XPosTest, LongTextsAndCachesBearIt) {
  const at::NoGradGuard no_grad;
  MultiHeadAttention module(MultiHeadAttentionOptions(16, 2).position(XPos(8, 10000.0, 4.0)).causal(Causal::kBottomRight));
  const at::Tensor X = at::randn({1, 20000, 16}), whole = module(X, X, X);
  EXPECT_TRUE(whole.isfinite().all().item<bool>());
  KeyValueCache cache;
  module->append(X.slice(1, 0, 19990), X.slice(1, 0, 19990), cache);
  const at::Tensor last = X.slice(1, 19990);
  EXPECT_TRUE(at::allclose(module->forward(last, last, last, {}, &cache), whole.slice(1, 19990), 0, 1e-4));
}

TEST(XPosTest, RefusalsNameTheArgument) {
  const at::Tensor x = Random({1, 2, 5, 8});
  ExpectRefused([&] { attention(x, x, x, AttentionOptions().position(XPos(8))); }, {"column_decay", "causal"});
  ExpectRefused([&] { MultiHeadAttention(MultiHeadAttentionOptions(16, 2).position({.scheme = PositionScheme::kXPos})); },
                {"'xpos'", "causal"});
  ExpectRefused([] { XPos(8, 10000.0, 0.0); }, "scale_base");
  ExpectRefused([] { XPos(7); }, {"rotary_dim", "got 7"});
}

}  // namespace
}  // namespace heed::nn
