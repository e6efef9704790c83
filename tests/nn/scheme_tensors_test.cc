// The tensors of positional schemes that have no class of their own here: a user's scheme brings them.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/error.h"
#include "heed/nn/attention.h"
#include "heed/nn/positions.h"
#include "position/scheme_set.h"
#include "tests/error_text.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

using Tensors = std::vector<at::Tensor>;

bool IsDifferentiableTensor(const std::string& name) {
  return std::ranges::any_of(AttentionTensors::kMembers,
                             [&](const auto& member) { return member.differentiable && member.name == name; });
}

TEST(SchemeTensorsTest, EveryTableOfTheEngineIsATensorOfTheOperators) {
  const std::string prefix = "d_";
  std::set<std::string> tensors;
  BiasGradients<float> gradients;
  Attention attention;
  attention.score = ProgramScore{ScoreProgram(program::Score()), {View<const float, 4>{}}};
  position::ForEachSchemeGradient(attention, gradients, [&](const std::string& gradient, const auto&, const auto*) {
    ASSERT_EQ(gradient.substr(0, prefix.size()), prefix);
    const std::string table = gradient.substr(prefix.size());
    // The tables of a program are one tensor, end to end, and those of heads one with more dimensions.
    const std::string tensor = table == "score_tables[0]"        ? "score_reals"
                               : table == "content_head_queries" ? "content_queries"
                                                                 : table;
    EXPECT_TRUE(IsDifferentiableTensor(tensor)) << gradient;
    tensors.insert(tensor);
  });
  EXPECT_EQ(tensors.size(), AttentionTensors::kDifferentiable);
}

struct TransformerXlOf : AttentionPosition {
  TransformerXlOf(at::Tensor positions, at::Tensor bias) : positions(std::move(positions)), bias(std::move(bias)) {}
  AttentionTensors tensors() const override {
    AttentionTensors tensors;
    tensors.transformer_xl_positions = positions;
    tensors.transformer_xl_bias = bias;
    return tensors;
  }
  at::Tensor positions, bias;
};

// x: query, key, value, positions and, where there is one, bias.
AttentionOutput Ours(const Tensors& x, Causal causal) {
  const at::Tensor bias = x.size() > 4 ? x[4] : at::Tensor();
  return attention(x[0], x[1], x[2], AttentionOptions().causal(causal).position(std::make_shared<TransformerXlOf>(x[3], bias)));
}

// softmax((q[i].k[j] + (q[i] + bias[h]).positions[h, j - i, clipped]) / sqrt(D)) v, the last query beside the last key where
// causal; the log-sum-exp behind the output as one more column.
at::Tensor Formula(const Tensors& x, Causal causal) {
  const int64_t heads = x[0].size(1), queries = x[0].size(2), keys = x[1].size(2), width = x[0].size(3);
  const int64_t distance = (x[3].size(1) - 1) / 2, first = causal == Causal::kNone ? 0 : keys - queries;
  const at::Tensor offsets = at::arange(keys) - (at::arange(queries) + first).unsqueeze(1);
  const at::Tensor rows = (offsets.clamp(-distance, distance) + distance).flatten();
  const at::Tensor positions = x[3].index_select(1, rows).reshape({heads, queries, keys, width});
  const at::Tensor moved = x.size() > 4 ? x[0] + x[4].unsqueeze(1) : x[0];
  const at::Tensor k = x[1].repeat_interleave(heads / x[1].size(1), 1), v = x[2].repeat_interleave(heads / x[2].size(1), 1);
  at::Tensor scores = at::matmul(x[0], k.transpose(-2, -1)) + at::einsum("bhid,hijd->bhij", {moved, positions});
  scores = scores / std::sqrt(static_cast<double>(width));
  if (causal != Causal::kNone) scores = scores.masked_fill(offsets > 0, -std::numeric_limits<double>::infinity());
  return at::cat({at::matmul(at::softmax(scores, -1), v), at::logsumexp(scores, {-1}, true)}, -1);
}

Tensors Leaves(const Tensors& inputs, at::ScalarType type) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.to(type).detach().clone().set_requires_grad(true));
  return leaves;
}

Tensors GradientsOf(const at::Tensor& output, const Tensors& leaves) {
  return torch::autograd::grad({output}, leaves, {at::cos(at::arange(output.numel(), output.options())).view_as(output)});
}

Tensors TransformerXlInputs(bool bias) {
  at::manual_seed(7);
  Tensors inputs{Random({2, 4, 37, 12}), Random({2, 2, 50, 12}), Random({2, 2, 50, 6}), Random({4, 21, 12})};
  if (bias) inputs.push_back(Random({4, 12}));
  return inputs;
}

TEST(SchemeTensorsTest, TransformerXlEqualsTheFormulaAndItsGradients) {
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
    for (const bool bias : {false, true}) {
      const Tensors inputs = TransformerXlInputs(bias);
      const Tensors x = Leaves(inputs, at::kDouble), y = Leaves(inputs, at::kDouble);
      const AttentionOutput result = Ours(x, causal);
      const at::Tensor ours = at::cat({result.output, result.lse.unsqueeze(-1)}, -1), expected = Formula(y, causal);
      EXPECT_TRUE(at::allclose(ours, expected, 0, 1e-12));
      const Tensors gradients = GradientsOf(ours, x), of_formula = GradientsOf(expected, y);
      for (std::size_t i = 0; i < x.size(); ++i)
        EXPECT_TRUE(at::allclose(gradients[i], of_formula[i], 0, 1e-11)) << "input " << i << ", bias " << bias;
    }
  }
}

// Tables are float32 beside 16-bit operands, whose rounding alone is then left.
TEST(SchemeTensorsTest, TransformerXlInNarrowerTypes) {
  for (const auto& [type, tolerance] : {std::pair(at::kFloat, 2e-5), std::pair(at::kBFloat16, 2e-2)}) {
    Tensors x = TransformerXlInputs(true), rounded;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = x[i].to(i < 3 ? type : at::kFloat);
      rounded.push_back(x[i].to(at::kDouble));
    }
    const at::Tensor expected = Formula(rounded, Causal::kBottomRight).narrow(-1, 0, 6);
    const at::Tensor ours = Ours(x, Causal::kBottomRight).output;
    EXPECT_EQ(ours.scalar_type(), type);
    EXPECT_LT((ours.to(at::kDouble) - expected).abs().max().item<double>(), tolerance) << at::toString(type);
  }
}

TEST(SchemeTensorsTest, TransformerXlIsRefusedByName) {
  const Tensors in = TransformerXlInputs(true);
  const auto refusal = [&](const at::Tensor& positions, const at::Tensor& bias) {
    AttentionOptions options;
    options.tensors().transformer_xl_positions = positions;
    options.tensors().transformer_xl_bias = bias;
    return WhatOf<InvalidArgument>([&] { attention(in[0], in[1], in[2], options); });
  };
  EXPECT_EQ(refusal({}, in[4]), "transformer_xl_bias: expected transformer_xl_positions beside it, got shape [4, 12] alone");
  EXPECT_EQ(refusal(in[3], in[4].narrow(1, 0, 6)),
            "transformer_xl_bias: expected shape [4, 12], got [4, 6] with query [2, 4, 37, 12]");
  EXPECT_EQ(
      refusal(in[3].narrow(0, 0, 2), {}),
      "transformer_xl_positions: expected shape [4, 2 * max_distance + 1, 12], got [2, 21, 12] with query [2, 4, 37, 12]");
  EXPECT_EQ(
      refusal(in[3].narrow(1, 0, 20), {}),
      "transformer_xl_positions: expected shape [4, 2 * max_distance + 1, 12], got [4, 20, 12] with query [2, 4, 37, 12]");
  EXPECT_EQ(refusal(in[3][0], {}), "transformer_xl_positions: expected 3 dimensions, got shape [21, 12]");
  EXPECT_EQ(refusal(in[3].to(at::kLong), {}), "transformer_xl_positions: expected a floating-point tensor, got Long");
}

}  // namespace
}  // namespace heed::nn
