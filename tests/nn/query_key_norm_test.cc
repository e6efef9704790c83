// Normalised queries and keys, in modules and by themselves.
#include "heed/nn/query_key_norm.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "gradient_check.h"
#include "heed/nn/encoders.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/transformer_decoder.h"
#include "refusal.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

MultiHeadAttentionOptions Options(QueryKeyNormKind kind) {
  return MultiHeadAttentionOptions(8, 4).kv_heads(2).query_key_norm(kind).position(
      PositionOptions{.scheme = PositionScheme::kRotary});
}

MultiHeadAttention Module(const MultiHeadAttentionOptions& options) {
  MultiHeadAttention module(options);
  module->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (const auto& item : module->named_parameters())
    if (item.key().starts_with("query_key_norm.")) item.value().uniform_(0.5, 2.0);
  // Norms undo their sizes; differences of step 1e-6 need rows that are far from zero beside it.
  for (const auto& projection : {module->W_q, module->W_k}) projection->weight.mul_(30);
  return module;
}

at::Tensor Split(const at::Tensor& X) { return X.unflatten(2, {-1, 2}).transpose(1, 2); }

// Norms before rotation, spelt out.
at::Tensor Expected(MultiHeadAttentionImpl& module, const at::Tensor& X, QueryKeyNormKind kind, AttentionOptions call) {
  at::Tensor q = Split(module.W_q(X)), k = Split(module.W_k(X));
  const QueryKeyNorm& norm = module.query_key_norm;
  if (kind == QueryKeyNormKind::kL2) {
    q = q / q.square().sum(-1, true).sqrt() * norm->log_scale.exp().reshape({4, 1, 1});
    k = k / k.square().sum(-1, true).sqrt();
    if (!call.scale()) call.scale(1.0);
  } else {
    q = q / (q.square().mean(-1, true) + 1e-6).sqrt() * norm->query_weight;
    k = k / (k.square().mean(-1, true) + 1e-6).sqrt() * norm->key_weight;
  }
  const at::Tensor heads = attention(q, k, Split(module.W_v(X)), call.position(module.position)).output;
  return module.W_o(heads.transpose(1, 2).flatten(2));
}

TEST(QueryKeyNormTest, EqualsItsFormulaInTrainingAndInference) {
  at::manual_seed(1);
  for (const QueryKeyNormKind kind : {QueryKeyNormKind::kL2, QueryKeyNormKind::kRms}) {
    MultiHeadAttention module = Module(Options(kind));
    // Rows enough for the joint projection of training, and fewer.
    for (const int64_t steps : {3, 40}) {
      const at::Tensor X = Random({2, steps, 8});
      EXPECT_TRUE(at::allclose(module(X, X, X), Expected(*module, X, kind, {}), 0, 1e-12));
      const at::NoGradGuard no_grad;
      EXPECT_TRUE(at::allclose(module(X, X, X), Expected(*module, X, kind, {}), 0, 1e-12));
    }
    MultiHeadAttention scaled = Module(Options(kind).scale(0.3));
    const at::Tensor X = Random({2, 5, 8});
    EXPECT_TRUE(at::allclose(scaled(X, X, X), Expected(*scaled, X, kind, AttentionOptions().scale(0.3)), 0, 1e-12));
    std::vector<at::Tensor> leaves = module->parameters();
    testing::ExpectLeafGradientsMatch([&] { return module(X, X, X); }, leaves);
  }
}

TEST(QueryKeyNormTest, SizesOfQueriesAndKeysDoNotMatter) {
  QueryKeyNorm norm(QueryKeyNormKind::kL2, 4, 6);
  norm->to(at::kDouble);
  const at::Tensor x = Random({2, 4, 5, 6});
  EXPECT_TRUE(at::allclose(norm->norm_query(1e3 * x), norm->norm_query(x), 0, 1e-12));
  EXPECT_TRUE(at::allclose(norm->norm_query(x).norm(2, -1), at::full({2, 4, 5}, 10.0, at::kDouble), 0, 1e-6));
  const at::NoGradGuard no_grad;
  norm->log_scale.fill_(9.0);
  EXPECT_TRUE(at::allclose(norm->norm_query(x).norm(2, -1), at::full({2, 4, 5}, 100.0, at::kDouble), 0, 1e-10));
  EXPECT_FALSE(norm->norm_key(at::zeros({1, 2, 1, 6}, at::kDouble)).isnan().any().item<bool>());
  EXPECT_EQ(norm->norm_key(at::ones({1, 2, 1, 6}, at::kBFloat16)).scalar_type(), at::kBFloat16);
}

TEST(QueryKeyNormTest, HasTheParametersOfThePythonPackage) {
  const MultiHeadAttention cosine(Options(QueryKeyNormKind::kL2)), rms(Options(QueryKeyNormKind::kRms));
  const auto l2 = cosine->named_parameters(), root = rms->named_parameters();
  EXPECT_EQ(l2.size(), 5u);
  EXPECT_TRUE(at::equal(l2["query_key_norm.log_scale"], at::full({4}, std::log(10.0), at::kFloat)));
  EXPECT_EQ(root.size(), 6u);
  for (const char* name : {"query_key_norm.query_weight", "query_key_norm.key_weight"})
    EXPECT_TRUE(at::equal(root[name], at::ones({2})));
  EXPECT_FALSE(MultiHeadAttention(Options(QueryKeyNormKind::kNone))->query_key_norm);
}

TEST(QueryKeyNormTest, CachesHoldNormalisedKeys) {
  const at::NoGradGuard no_grad;
  for (const QueryKeyNormKind kind : {QueryKeyNormKind::kL2, QueryKeyNormKind::kRms}) {
    MultiHeadAttention module = Module(Options(kind).causal(Causal::kBottomRight));
    const at::Tensor X = Random({2, 6, 8}), whole = module(X, X, X);
    KeyValueCache cache;
    std::vector<at::Tensor> steps;
    for (const int64_t begin : {0, 3}) {
      const at::Tensor x = X.slice(1, begin, begin + 3);
      steps.push_back(module->forward(x, x, x, {}, &cache));
    }
    EXPECT_TRUE(at::allclose(at::cat(steps, 1), whole, 0, 1e-12));
    const auto copy = std::dynamic_pointer_cast<MultiHeadAttentionImpl>(module->clone());
    EXPECT_TRUE(at::equal(copy->forward(X, X, X), whole));
    copy->query_key_norm->parameters()[0].mul_(1.5);
    EXPECT_TRUE(at::equal(module(X, X, X), whole));
  }
}

TEST(QueryKeyNormTest, BlocksAndEncodersHandItOn) {
  const AttentionEncoder encoder(EncoderOptions(8).heads(2).layers(1).query_key_norm(QueryKeyNormKind::kL2));
  EXPECT_TRUE(encoder->named_parameters().contains("block0.attention.query_key_norm.log_scale"));
  const TransformerDecoderBlock block(TransformerDecoderBlockOptions(8, 16, 2).query_key_norm(QueryKeyNormKind::kRms));
  for (const char* name : {"attention1.query_key_norm.query_weight", "attention2.query_key_norm.key_weight"})
    EXPECT_TRUE(block->named_parameters().contains(name)) << name;
}

TEST(QueryKeyNormTest, ZerosHaveFiniteGradients) {
  QueryKeyNorm norm(QueryKeyNormKind::kL2, 1, 3);
  const at::Tensor x = at::tensor({0.0f, 0.0f, 0.0f, 3.0f, 0.0f, 4.0f}).view({1, 1, 2, 3}).set_requires_grad(true);
  norm->norm_key(x).sum().backward();
  EXPECT_TRUE(at::allclose(x.grad().flatten(), at::tensor({1.0f, 1.0f, 1.0f, 0.032f, 0.2f, -0.024f}), 0, 1e-6)) << x.grad();
}

TEST(QueryKeyNormTest, RefusalsNameTheArgument) {
  ExpectRefused([] { QueryKeyNorm(QueryKeyNormKind::kNone, 2, 4); }, "kind");
  ExpectRefused([] { QueryKeyNorm(QueryKeyNormKind::kL2, 0, 4); }, "heads: expected at least 1");
  ExpectRefused([] { QueryKeyNorm(QueryKeyNormKind::kL2, int64_t{1} << 62, 4); }, "QueryKeyNorm: heads: expected at most 2^24");
  ExpectRefused([] { QueryKeyNorm(QueryKeyNormKind::kRms, 2, int64_t{1} << 62); },
                "QueryKeyNorm: head_dim: expected at most 2^24");
  const QueryKeyNorm norm(QueryKeyNormKind::kL2, 2, 4);
  ExpectRefused([&] { norm->norm_query(at::ones({1, 2, 3, 5})); }, {"query", "steps, 4]", "[1, 2, 3, 5]"});
  ExpectRefused([&] { norm->norm_query(at::ones({1, 3, 3, 4})); }, {"query", "2 heads, got 3"});
  ExpectRefused([&] { norm->norm_key(at::Tensor()); }, {"key", "undefined"});
}

}  // namespace
}  // namespace heed::nn
