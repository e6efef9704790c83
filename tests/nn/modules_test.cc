// Positional encodings, what they do to attention, and the Transformer encoder.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>

#include "heed/nn/multi_head_attention.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/positions.h"
#include "heed/nn/transformer.h"
#include "refusal.h"

namespace heed::nn {
namespace {

std::vector<std::string> Names(const torch::nn::Module& module) { return module.named_parameters().keys(); }

// The largest deviation from f(permuted X) = permuted f(X).
template <class F>
double PermutationDefect(const F& f) {
  at::manual_seed(8);
  const at::Tensor X = at::randn({2, 9, 8}, at::kDouble), order = at::randperm(9);
  return (f(X.index_select(1, order)) - f(X).index_select(1, order)).abs().max().template item<double>();
}

TEST(PermutationTest, HoldsWithoutPositionsAndFailsWithThem) {
  at::manual_seed(6);
  const auto defect = [](MultiHeadAttentionOptions options) {
    MultiHeadAttention module(options);
    module->to(at::kDouble);
    for (const auto& item : module->named_parameters()) {
      if (item.key().starts_with("position.")) torch::nn::init::normal_(item.value());
    }
    return PermutationDefect([&](const at::Tensor& X) { return module(X, X, X); });
  };
  const MultiHeadAttentionOptions options(8, 2);
  // Only the order of sums differs: a few units in the last place. A scheme shifts the output by about its own size.
  EXPECT_LT(defect(options), 1e-13);
  EXPECT_GT(defect(MultiHeadAttentionOptions(options).causal(Causal::kBottomRight)), 1e-3);
  for (const char* name : {"rotary", "alibi", "relative", "t5", "shaw", "kerple", "kerple_power", "sandwich", "fire",
                           "sinusoidal_bias", "transformer_xl", "deberta", "cope"}) {
    EXPECT_GT(defect(MultiHeadAttentionOptions(options).position({.scheme = ParsePositionScheme(name), .max_distance = 20})),
              1e-3)
        << name;
  }

  MultiHeadAttention module(options);
  module->to(at::kDouble);
  PositionalEncoding sinusoidal(8, 0.0);
  LearnedPositions learned(8, 0.0);
  learned->to(at::kDouble);
  const auto encoded = [&](auto& encoding) {
    return PermutationDefect([&](const at::Tensor& X) {
      const at::Tensor Y = encoding(X);
      return module(Y, Y, Y);
    });
  };
  EXPECT_GT(encoded(sinusoidal), 1e-3);
  EXPECT_GT(encoded(learned), 1e-3);
}

TEST(PositionalEncodingTest, ValuesOfTheBook) {
  PositionalEncoding encoding(32, 0.0);
  encoding->eval();
  const at::Tensor P = encoding->P();
  ASSERT_EQ(P.sizes(), at::IntArrayRef({1, 1000, 32}));
  const std::vector<std::pair<std::pair<int, int>, double>> values = {{{1, 0}, 0.8415}, {{1, 1}, 0.5403},   {{1, 2}, 0.5332},
                                                                      {{1, 3}, 0.8460}, {{59, 6}, -0.8758}, {{59, 9}, 0.9275}};
  for (const auto& [at_, value] : values) EXPECT_NEAR(P[0][at_.first][at_.second].item<double>(), value, 5e-5);
  const at::Tensor X = at::zeros({1, 60, 32});
  EXPECT_TRUE(at::equal(encoding(X), P.slice(1, 0, 60)));
  EXPECT_TRUE(at::equal(encoding(X, 7), P.slice(1, 7, 67)));
  EXPECT_TRUE(Names(*encoding).empty());
  EXPECT_TRUE(encoding->named_buffers().is_empty());
}

TEST(PositionalEncodingTest, OddWidths) {
  PositionalEncoding encoding(5, 0.0, 10);
  const at::Tensor row = encoding->P()[0][3];
  for (int64_t t = 0; t < 5; ++t) {
    const int64_t pair = t / 2;
    const double angle = 3.0 / std::pow(10000.0, 2.0 * static_cast<double>(pair) / 5.0);
    EXPECT_NEAR(row[t].item<double>(), t % 2 == 0 ? std::sin(angle) : std::cos(angle), 1e-7);
  }
}

TEST(PositionalEncodingTest, TableMovesWithTheModule) {
  torch::nn::Sequential model{PositionalEncoding(6, 0.0, 10)};
  model->to(at::kDouble);
  EXPECT_EQ(model->ptr<PositionalEncodingImpl>(0)->P().scalar_type(), at::kDouble);
  EXPECT_EQ(model->forward(at::zeros({1, 2, 6}, at::kDouble)).scalar_type(), at::kDouble);
}

TEST(PositionalEncodingTest, WholeNumbersAreEncodedAsRealOnes) {
  PositionalEncoding encoding(6, 0.0, 10);
  const at::Tensor X = at::ones({1, 2, 6});
  EXPECT_TRUE(at::equal(encoding(X.to(at::kLong)), encoding(X)));
}

TEST(PositionalEncodingTest, LengthPolicies) {
  const at::Tensor X = at::zeros({1, 4, 6});
  PositionalEncoding refuse(6, 0.0, 8), extend(6, 0.0, 8, LengthPolicy::kExtend), clamp(6, 0.0, 8, LengthPolicy::kClamp);
  PositionalEncoding longer(6, 0.0, 100);
  EXPECT_TRUE(at::equal(refuse(X, 4), longer(X, 4)));
  ExpectRefused([&] { refuse(X, 5); }, {"4 steps", "offset 5", "9 positions", "max_len is 8", "raise max_len"});
  ExpectRefused([&] { refuse(X, std::numeric_limits<int64_t>::max() - 4); }, "max_len is 8");
  EXPECT_TRUE(at::equal(extend(X, 6), longer(X, 6)));
  EXPECT_TRUE(at::equal(clamp(X, 6), longer(X, 0) * 0 + longer->P().index_select(1, at::tensor({6, 7, 7, 7}))));
  ExpectRefused([&] { refuse(X, -1); }, {"offset", "-1"});
  ExpectRefused([&] { refuse(at::zeros({1, 4, 5})); }, {"X", "[1, 4, 5]", "6"});
  ExpectRefused([] { PositionalEncoding(6, 0.0, 0); }, {"max_len", "0"});
}

TEST(LearnedPositionsTest, RowsAndPolicies) {
  at::manual_seed(9);
  LearnedPositions learned(64, 0.0, 500);
  EXPECT_NEAR(learned->weight.std().item<double>(), 0.02, 0.001);  // 32000 draws: 0.02 +- 0.0001
  const at::Tensor X = at::zeros({1, 3, 64});
  EXPECT_TRUE(at::equal(learned(X, 10)[0], learned->weight.slice(0, 10, 13)));
  ExpectRefused([&] { learned(X, 498); }, {"LearnedPositions", "501 positions", "max_len is 500"});
  LearnedPositions clamp(4, 0.0, 2, LengthPolicy::kClamp);
  EXPECT_TRUE(at::equal(clamp(at::zeros({1, 3, 4}), 1)[0], clamp->weight.index_select(0, at::tensor({1, 1, 1}))));
  ExpectRefused([] { LearnedPositions(4, 0.0, 2, LengthPolicy::kExtend); }, "cannot be extended");
}

TEST(TransformerTest, ShapesAndNamesOfTheBook) {
  TransformerEncoderBlock block(24, 48, 8, 0.5);
  block->eval();
  EXPECT_EQ(block(at::ones({2, 100, 24}), at::tensor({3, 2})).sizes(), at::IntArrayRef({2, 100, 24}));
  TransformerEncoder encoder(200, 24, 48, 8, 2, 0.5);
  encoder->eval();
  const at::Tensor output = encoder(at::ones({2, 100}, at::kLong), at::tensor({3, 2}));
  EXPECT_EQ(output.sizes(), at::IntArrayRef({2, 100, 24}));
  const auto names = Names(*encoder);
  for (const char* name : {"embedding.weight", "blks.block0.attention.W_q.weight", "blks.block1.addnorm1.ln.weight",
                           "blks.block1.ffn.dense1.bias", "blks.block0.addnorm2.ln.bias"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  EXPECT_EQ(names.size(), 1u + 2 * (4 + 2 + 4 + 2));
}

TEST(TransformerTest, EmbeddingIsScaledAndEncoded) {
  TransformerEncoder encoder(10, 8, 16, 2, 0, 0.5);
  encoder->eval();
  const at::Tensor tokens = at::tensor({3, 1, 4}, at::kLong).unsqueeze(0);
  const at::Tensor expected = encoder->embedding(tokens) * std::sqrt(8.0) + encoder->pos_encoding->P().slice(1, 0, 3);
  EXPECT_TRUE(at::equal(encoder(tokens), expected));
  ExpectRefused([&] { encoder(tokens[0]); }, {"tokens", "[3]"});
}

TEST(TransformerTest, PostAndPreNorm) {
  at::manual_seed(10);
  const at::Tensor X = at::randn({2, 5, 8});
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    TransformerEncoderBlock block(
        TransformerEncoderBlockOptions(8, 16, 2).norm(norm).activation(Activation::kGelu).layer_norm_eps(1e-3));
    EXPECT_EQ(block->addnorm1->ln->options.eps(), 1e-3);
    const auto norm1 = [&](const at::Tensor& Y) { return block->addnorm1->ln(Y); };
    const auto norm2 = [&](const at::Tensor& Y) { return block->addnorm2->ln(Y); };
    const auto ffn = [&](const at::Tensor& Y) { return block->ffn->dense2(at::gelu(block->ffn->dense1(Y))); };
    const auto attend = [&](const at::Tensor& Y) { return block->attention(Y, Y, Y); };
    at::Tensor expected;
    if (norm == Norm::kPost) {
      const at::Tensor Y = norm1(X + attend(X));
      expected = norm2(Y + ffn(Y));
    } else {
      const at::Tensor Y = X + attend(norm1(X));
      expected = Y + ffn(norm2(Y));
    }
    EXPECT_TRUE(at::allclose(block(X), expected, 1e-6, 1e-6));
  }
}

TEST(TransformerTest, FeedForwardCanBeLeftOut) {
  TransformerEncoderBlock block(8, 0, 2, 0.0);
  EXPECT_EQ(Names(*block).size(), 4u + 2u);
  EXPECT_EQ(block(at::randn({1, 3, 8})).sizes(), at::IntArrayRef({1, 3, 8}));
  ExpectRefused([] { TransformerEncoderBlock(8, -1, 2, 0.0); }, {"ffn_num_hiddens", "-1"});
  ExpectRefused([] { TransformerEncoder(0, 8, 16, 2, 2, 0.0); }, "vocab_size");
}

TEST(TransformerTest, StepsOfABlockStandWhereTheCallerSays) {
  PositionOptions rotary;
  rotary.scheme = PositionScheme::kRotary;
  for (const Norm norm : {Norm::kPost, Norm::kPre}) {
    TransformerEncoderBlock block(TransformerEncoderBlockOptions(8, 0, 2).norm(norm).position(rotary));
    block->to(at::kDouble);
    const at::Tensor X = at::randn({2, 5, 8}, at::kDouble), times = at::rand({2, 5}, at::kDouble) * 9;
    const auto attend = [&](const at::Tensor& Y) { return block->attention->forward(Y, Y, Y, {}, nullptr, {times, times}); };
    const at::Tensor expected = norm == Norm::kPost ? block->addnorm1->ln(X + attend(X)) : X + attend(block->addnorm1->ln(X));
    EXPECT_TRUE(at::allclose(block->forward(X, {}, nullptr, {times, times}), expected, 0, 1e-12));
    EXPECT_FALSE(at::allclose(block->forward(X), expected, 0, 1e-3));
  }
}

TEST(TransformerTest, ABlockHandsMasksToItsAttention) {
  TransformerEncoderBlock block(TransformerEncoderBlockOptions(8, 0, 2));
  const at::Tensor X = at::randn({2, 5, 8}), mask = at::ones({5, 5}, at::kBool).tril();
  const at::Tensor expected = block->addnorm1(X, block->attention->forward(X, X, X, {}, nullptr, {}, {.mask = mask}));
  EXPECT_TRUE(at::equal(block->forward(X, {}, nullptr, {}, {.mask = mask}), expected));
  EXPECT_FALSE(at::allclose(block->forward(X), expected));
}

TEST(TransformerTest, WeightsPerBlock) {
  TransformerEncoder encoder(10, 3, TransformerEncoderBlockOptions(8, 16, 2).keep_attention_weights(true).norm(Norm::kPre));
  encoder(at::ones({2, 5}, at::kLong));
  const auto weights = encoder->attention_weights();
  ASSERT_EQ(weights.size(), 3u);
  EXPECT_EQ(weights[2].sizes(), at::IntArrayRef({4, 5, 5}));
  EXPECT_TRUE(TransformerEncoder(10, 8, 16, 2, 2, 0.0)->attention_weights().empty());
}

TEST(TransformerTest, EvaluationDropsNothing) {
  TransformerEncoder encoder(10, 8, 16, 2, 2, 0.5);
  const at::Tensor tokens = at::randint(10, {2, 6}, at::kLong);
  EXPECT_FALSE(at::equal(encoder(tokens), encoder(tokens)));
  encoder->eval();
  EXPECT_TRUE(at::equal(encoder(tokens), encoder(tokens)));
}

}  // namespace
}  // namespace heed::nn
