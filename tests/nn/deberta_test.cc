// DeBERTa's disentangled attention beside its formula.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/init.h>

#include "heed/nn/multi_head_attention.h"
#include "heed/nn/score_terms.h"
#include "refusal.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

constexpr int64_t kQueryHeads = 4, kColumns = 6, kSteps = 13;

Deberta StirredDeberta(int64_t max_distance, int64_t buckets) {
  Deberta scheme(kQueryHeads, kColumns, max_distance, buckets, 10);
  scheme->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : scheme->parameters()) torch::nn::init::normal_(parameter, 0.0, 0.7);
  return scheme;
}

// Rows of the embeddings by pair, [steps, steps], as DeBERTa-v2's own code has them.
at::Tensor RowsByPair(int64_t max_distance, int64_t buckets) {
  const at::Tensor token = at::arange(kSteps, at::kDouble), offset = token.unsqueeze(1) - token;
  const int64_t span = buckets == 0 ? max_distance : buckets;
  at::Tensor bucket = offset;
  if (buckets != 0) {
    const double half = static_cast<double>(buckets) / 2;
    const at::Tensor distance = at::where(offset.abs() < half, at::full_like(offset, half - 1), offset.abs());
    const at::Tensor far =
        at::ceil(at::log(distance / half) / std::log((static_cast<double>(max_distance) - 1) / half) * (half - 1)) + half;
    bucket = at::where(distance <= half, offset, far * offset.sign());
  }
  return (bucket.to(at::kLong) + span).clamp(0, 2 * span - 1);
}

struct DebertaOperands {
  at::Tensor q = Random({2, kQueryHeads, kSteps, kColumns}), k = Random({2, 2, kSteps, kColumns}),
             v = Random({2, 2, kSteps, kColumns});

  at::Tensor Expected(const Deberta& scheme, const at::Tensor& rows) const {
    const auto vectors = [&](const torch::nn::Linear& projection) {
      const at::Tensor all = at::linear(scheme->embeddings, projection->weight, projection->bias);
      return all.view({-1, kQueryHeads, kColumns})
          .index_select(0, rows.flatten())
          .view({kSteps, kSteps, kQueryHeads, kColumns});
    };
    const auto spread = [](const at::Tensor& x) { return x.repeat_interleave(kQueryHeads / x.size(1), 1); };
    const at::Tensor scores = at::matmul(q, spread(k).transpose(-2, -1)) +
                              at::einsum("bhic,ijhc->bhij", {q, vectors(scheme->key_projection)}) +
                              at::einsum("bhjc,ijhc->bhij", {spread(k), vectors(scheme->query_projection)});
    return at::matmul(at::softmax(scores / std::sqrt(3.0 * kColumns), -1), spread(v));
  }
};

TEST(DebertaTest, EqualsItsFormulaAndItsGradients) {
  at::manual_seed(31);
  for (const auto& [max_distance, buckets] : std::vector<std::pair<int64_t, int64_t>>{{5, 0}, {20, 0}, {10, 4}, {12, 8}}) {
    const Deberta scheme = StirredDeberta(max_distance, buckets);
    const DebertaOperands in;
    std::vector<at::Tensor> leaves = scheme->parameters();
    for (const at::Tensor& operand : {in.q, in.k, in.v}) leaves.push_back(operand.set_requires_grad(true));
    const at::Tensor expected = in.Expected(scheme, RowsByPair(max_distance, buckets));
    const at::Tensor ours = attention(in.q, in.k, in.v, AttentionOptions().position(scheme)).output;
    EXPECT_TRUE(at::allclose(ours, expected, 0, 1e-12)) << max_distance << " " << buckets;
    const at::Tensor weight = at::randn_like(expected);
    const auto found = torch::autograd::grad({ours}, leaves, {weight}),
               right = torch::autograd::grad({expected}, leaves, {weight});
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
      EXPECT_TRUE(at::allclose(found[leaf], right[leaf], 1e-10, 1e-11)) << "leaf " << leaf;
  }
}

TEST(DebertaTest, HasTheParametersOfThePythonPackage) {
  const MultiHeadAttention module(
      MultiHeadAttentionOptions(24, 3).position({.scheme = PositionScheme::kDeberta, .max_distance = 20}));
  const auto named = module->named_parameters();
  EXPECT_EQ(named.size(), 9u);
  EXPECT_EQ(named["position.embeddings"].sizes(), at::IntArrayRef({40, 24}));
  EXPECT_NEAR(named["position.embeddings"].std().item<double>(), 0.02, 0.003);
  for (const char* projection : {"position.key_projection", "position.query_projection"}) {
    EXPECT_EQ(named[projection + std::string(".weight")].sizes(), at::IntArrayRef({24, 24}));
    EXPECT_EQ(named[projection + std::string(".bias")].sizes(), at::IntArrayRef({24}));
  }
  EXPECT_EQ(Deberta(2, 4, 512, 256)->embeddings.sizes(), at::IntArrayRef({512, 8}));
}

TEST(DebertaTest, ExactPowersAreTheLastOfTheirBucket) {
  // Distances half * r^k, r = (max_distance - 1) / half to the power 1 / (half - 1): a power of two each.
  const int64_t buckets = 20, half = 10, max_distance = 10 * 512 + 1;
  const Deberta scheme(1, 1, max_distance, buckets, 1);
  const at::NoGradGuard no_grad;
  scheme->embeddings.copy_(at::arange(2 * buckets, at::kFloat).unsqueeze(1));
  scheme->key_projection->weight.fill_(1.0);
  scheme->key_projection->bias.zero_();
  const at::Tensor rows = scheme->tensors().transformer_xl_positions.flatten();
  const auto row_of = [&](int64_t distance) { return rows[max_distance - distance].item<int64_t>(); };
  for (int64_t k = 0; k < half; ++k) {
    const int64_t power = half << k;
    EXPECT_EQ(row_of(power), buckets + half + k);
    EXPECT_EQ(row_of(power + 1), std::min(buckets + half + k + 1, 2 * buckets - 1));
    EXPECT_EQ(row_of(-power), buckets - half - k);
  }
}

TEST(DebertaTest, RefusalsNameTheArgument) {
  ExpectRefused([] { Deberta(0, 4); }, {"Deberta", "heads: expected at least 1"});
  ExpectRefused([] { Deberta(2, 4, 0); }, "max_distance: expected at least 1");
  ExpectRefused([] { Deberta(2, 4, 512, 7); }, {"buckets", "got 7"});
  ExpectRefused([] { Deberta(2, 4, 4, 6); }, {"buckets", "max_distance 4"});
}

}  // namespace
}  // namespace heed::nn
