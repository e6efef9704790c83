// Gradients of statistics and of sinks in LibTorch: beside the dense formula, and through modules' own way of calling.
#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/error.h"
#include "heed/nn/attention.h"
#include "tests/error_text.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

using Tensors = std::vector<at::Tensor>;

// Query, key, value and a sink for each head.
Tensors Leaves(int64_t queries) {
  at::manual_seed(3);
  Tensors leaves{Random({2, 4, queries, 6}), Random({2, 2, 9, 6}), Random({2, 2, 9, 5}), Random({4})};
  for (at::Tensor& leaf : leaves) leaf = leaf.to(at::kDouble).detach().set_requires_grad(true);
  return leaves;
}

// Output, log-sum-exp, entropy, largest weight and mean distance, causal, the last query beside the last key.
Tensors Formula(const Tensors& x) {
  const int64_t queries = x[0].size(2), keys = x[1].size(2);
  const at::Tensor k = x[1].repeat_interleave(2, 1), v = x[2].repeat_interleave(2, 1);
  const at::Tensor offset = at::arange(keys) - at::arange(queries).unsqueeze(1) - (keys - queries);
  const at::Tensor own = at::matmul(x[0], k.transpose(-2, -1)) / std::sqrt(6.0);
  const at::Tensor seen = own.masked_fill(offset > 0, -std::numeric_limits<double>::infinity());
  const at::Tensor scores = at::cat({seen, x[3].view({1, 4, 1, 1}).expand({2, 4, queries, 1})}, -1);
  const at::Tensor p = at::softmax(scores, -1), of_keys = p.narrow(-1, 0, keys);
  const at::Tensor logs = at::where(p > 0, p, 1.0).log();
  return {at::matmul(of_keys, v), at::logsumexp(scores, {-1}), -(p * logs).sum(-1), p.amax({-1}),
          (of_keys * offset.abs()).sum(-1)};
}

TEST(StatisticsAndSinks, HaveTheGradientsOfTheFormula) {
  for (const int64_t queries : {1, 7}) {
    const Tensors x = Leaves(queries), expected = Formula(x);
    const AttentionOutput result =
        attention(x[0], x[1], x[2], AttentionOptions().causal(true).sinks(x[3]).return_statistics(true));
    const Tensors found{result.output, result.lse, result.statistics[0], result.statistics[1], result.statistics[2]};
    for (std::size_t part = 0; part < found.size(); ++part) {
      EXPECT_TRUE(at::allclose(found[part], expected[part], 0, 1e-12)) << part;
      const at::Tensor d = at::cos(at::arange(found[part].numel(), found[part].options())).view_as(found[part]);
      const auto gradients = [&](const at::Tensor& of) {
        return torch::autograd::grad({of}, x, {d}, /*retain_graph=*/true, /*create_graph=*/false, /*allow_unused=*/true);
      };
      const Tensors ours = gradients(found[part]), right = gradients(expected[part]);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const at::Tensor of_formula = right[i].defined() ? right[i] : at::zeros_like(x[i]);
        EXPECT_TRUE(at::allclose(ours[i], of_formula, 0, 1e-11)) << "result " << part << ", input " << i;
      }
    }
  }
}

TEST(StatisticsAndSinks, AreRefusedByName) {
  const Tensors x = Leaves(7);
  const auto refusal = [&](const at::Tensor& sinks) {
    return WhatOf<InvalidArgument>([&] { attention(x[0], x[1], x[2], AttentionOptions().sinks(sinks)); });
  };
  EXPECT_EQ(refusal(at::ones({3})),
            "sinks: expected shape [4] or [batch or 1, 4 or 1, steps or 1], got [3] with query [2, 4, 7, 6]");
  EXPECT_EQ(refusal(at::ones({4}, at::kLong)), "sinks: expected a floating-point tensor, got Long");
}

}  // namespace
}  // namespace heed::nn
