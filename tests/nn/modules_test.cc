// Multi-head attention, positional encodings and the Transformer encoder.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/init.h>

#include "gradient_check.h"
#include "heed/error.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/positional_encoding.h"
#include "heed/nn/positions.h"
#include "heed/nn/transformer.h"

namespace heed::nn {
namespace {

PositionOptions Scheme(PositionScheme scheme, int64_t max_distance = 8) {
  PositionOptions options;
  options.scheme = scheme;
  options.max_distance = max_distance;
  return options;
}

template <class F>
void ExpectRefused(const F& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown; expected " << parts[0];
  } catch (const InvalidArgument& error) {
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << part << " in: " << error.what();
    }
  }
}

std::vector<std::string> Names(const torch::nn::Module& module) { return module.named_parameters().keys(); }

TEST(MultiHeadAttentionTest, ShapesOfTheBook) {
  MultiHeadAttention attention(100, 5, 0.5);
  attention->eval();
  const at::Tensor X = at::ones({2, 4, 100}), Y = at::ones({2, 6, 100}), valid_lens = at::tensor({3, 2});
  EXPECT_EQ(attention(X, Y, Y, valid_lens).sizes(), at::IntArrayRef({2, 4, 100}));
  EXPECT_EQ(attention(X, X, X, valid_lens).sizes(), at::IntArrayRef({2, 4, 100}));
  EXPECT_EQ(Names(*attention), (std::vector<std::string>{"W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight"}));
}

TEST(MultiHeadAttentionTest, OldConstructorTakesFiveSizes) {
  MultiHeadAttention attention(/*key_size=*/3, /*query_size=*/4, /*value_size=*/5, /*num_hiddens=*/6, /*num_heads=*/2, 0.0,
                               /*bias=*/true);
  EXPECT_EQ(attention->W_k->weight.sizes(), at::IntArrayRef({6, 3}));
  EXPECT_EQ(attention->W_q->weight.sizes(), at::IntArrayRef({6, 4}));
  EXPECT_EQ(attention->W_v->weight.sizes(), at::IntArrayRef({6, 5}));
  EXPECT_EQ(attention->W_o->bias.sizes(), at::IntArrayRef({6}));
  EXPECT_EQ(attention(at::randn({2, 7, 4}), at::randn({2, 8, 3}), at::randn({2, 8, 5})).sizes(), at::IntArrayRef({2, 7, 6}));
}

// The same module out of plain tensor operations.
at::Tensor Plain(MultiHeadAttentionImpl& module, const at::Tensor& X, const at::Tensor& Y, const at::Tensor& allowed) {
  const auto split = [](const at::Tensor& Z, int64_t heads) {
    return Z.reshape({Z.size(0), Z.size(1), heads, -1}).transpose(1, 2);
  };
  const int64_t heads = module.options.num_heads(), group = heads / module.options.kv_heads();
  const at::Tensor q = split(module.W_q(X), heads);
  const at::Tensor k = split(module.W_k(Y), module.options.kv_heads()).repeat_interleave(group, 1);
  const at::Tensor v = split(module.W_v(Y), module.options.kv_heads()).repeat_interleave(group, 1);
  const at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(double(q.size(3)));
  const at::Tensor weights =
      at::softmax(scores.masked_fill(allowed.logical_not(), -std::numeric_limits<double>::infinity()), -1);
  return module.W_o(at::matmul(weights, v).transpose(1, 2).flatten(2));
}

TEST(MultiHeadAttentionTest, EqualsPlainOperations) {
  at::manual_seed(1);
  MultiHeadAttention module(MultiHeadAttentionOptions(12, 4).kv_heads(2).bias(true));
  module->to(at::kDouble);
  const at::Tensor X = at::randn({2, 5, 12}, at::kDouble), Y = at::randn({2, 6, 12}, at::kDouble);
  const at::Tensor lens = at::tensor(std::vector<int64_t>{3, 6});
  const at::Tensor allowed = at::arange(6).lt(lens.reshape({2, 1, 1, 1}));
  EXPECT_TRUE(at::allclose(module(X, Y, Y, lens), Plain(*module, X, Y, allowed), 0, 1e-12));
}

// Self-attention projects its one input by one product; copies of the input go by three.
TEST(MultiHeadAttentionTest, ProjectsTogetherWhatItWouldProjectApart) {
  at::manual_seed(1);
  for (const bool bias : {false, true}) {
    MultiHeadAttention module(MultiHeadAttentionOptions(12, 4).kv_heads(2).bias(bias));
    module->to(at::kDouble);
    const at::Tensor X = at::randn({3, 20, 12}, at::kDouble).requires_grad_(true), d_out = at::randn({3, 20, 12}, at::kDouble);
    std::vector<at::Tensor> inputs = {X};
    for (const at::Tensor& parameter : module->parameters()) inputs.push_back(parameter);
    const at::Tensor together = module(X, X, X), apart = module(X, X.clone(), X.clone());
    EXPECT_TRUE(at::allclose(together, apart, 0, 1e-13));
    const auto d_together = torch::autograd::grad({together}, inputs, {d_out});
    const auto d_apart = torch::autograd::grad({apart}, inputs, {d_out});
    for (std::size_t i = 0; i < inputs.size(); ++i)
      EXPECT_TRUE(at::allclose(d_together[i], d_apart[i], 0, 1e-12)) << "input " << i;
  }
}

TEST(MultiHeadAttentionTest, ValidLensMeanWhatTheyMeanInTheBook) {
  at::manual_seed(2);
  MultiHeadAttention module(8, 2, 0.0);
  const at::Tensor X = at::randn({2, 3, 8}), Y = at::randn({2, 6, 8});
  const auto run = [&](const at::Tensor& lens) { return module(X, Y, Y, lens); };
  const at::Tensor expected = run(at::tensor(std::vector<int64_t>{3, 6}));
  EXPECT_TRUE(at::equal(run(at::tensor({2.5f, 9.0f})), expected));
  EXPECT_TRUE(at::equal(run(at::tensor({3, 100}, at::kInt)), expected));
  EXPECT_TRUE(at::equal(run(at::tensor({3.0, std::numeric_limits<double>::infinity()})), expected));
  EXPECT_TRUE(at::equal(run(at::tensor({3, 3, 3, 6, 6, 6}, at::kLong).reshape({2, 3})), expected));
  const at::Tensor none = run(at::tensor({-2.0, 0.0}));
  EXPECT_TRUE(at::equal(none, at::zeros_like(none)));
  EXPECT_TRUE(at::equal(run(at::tensor({std::numeric_limits<double>::quiet_NaN(), 0.0})), none));
}

// The number of steps, which lengths are clamped to, need not fit their type.
TEST(MultiHeadAttentionTest, ValidLensOfANarrowTypeMeanWhatTheySay) {
  const at::NoGradGuard no_grad;
  MultiHeadAttention module(4, 1, 0.0);
  const at::Tensor X = at::randn({2, 300, 4}), lens = at::tensor(std::vector<int64_t>{100, 3});
  const at::Tensor expected = module(X, X, X, lens);
  for (const at::ScalarType type : {at::kByte, at::kChar, at::kHalf, at::kFloat})
    EXPECT_TRUE(at::equal(module(X, X, X, lens.to(type)), expected)) << at::toString(type);
  // int64 holds none of these, which mean all steps.
  const at::Tensor most = at::tensor(std::vector<int64_t>{-1, 3}).to(at::kUInt64);
  EXPECT_TRUE(at::equal(module(X, X, X, most), module(X, X, X, at::tensor(std::vector<int64_t>{300, 3}))));
  ExpectRefused([&] { module(X, X, X, lens.gt(50)); }, {"valid_lens", "Bool"});
}

TEST(MultiHeadAttentionTest, EmptyRowsCanBeUniform) {
  at::manual_seed(2);
  MultiHeadAttention module(MultiHeadAttentionOptions(8, 2).empty_row(EmptyRow::kUniform).keep_attention_weights(true));
  const at::Tensor X = at::randn({1, 3, 8});
  const at::Tensor output = module(X, X, X, at::tensor({0}));
  EXPECT_TRUE(at::allclose(output, module->W_o(module->W_v(X).mean(1, true)).expand_as(output), 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(module->attention_weights(), at::full({2, 3, 3}, 1.0 / 3), 0, 1e-7));
}

TEST(MultiHeadAttentionTest, WeightsAreKeptOnlyWhenAskedAndSumToOne) {
  at::manual_seed(3);
  const at::Tensor X = at::randn({2, 5, 8}), Y = at::randn({2, 7, 8}), lens = at::tensor({4, 7});
  MultiHeadAttention silent(8, 4, 0.3);
  silent(X, Y, Y, lens);
  EXPECT_FALSE(silent->attention_weights().defined());
  MultiHeadAttention module(MultiHeadAttentionOptions(8, 4).dropout(0.3).keep_attention_weights(true));
  module(X, Y, Y, lens);
  const at::Tensor weights = module->attention_weights();
  ASSERT_EQ(weights.sizes(), at::IntArrayRef({8, 5, 7}));
  EXPECT_TRUE(at::allclose(weights.sum(-1), at::ones({8, 5}), 0, 1e-6));
  // Row batch * heads + head: the first four rows belong to the batch row of length 4.
  EXPECT_EQ(weights.slice(0, 0, 4).slice(2, 4).abs().max().item<float>(), 0.0f);
  EXPECT_GT(weights.slice(0, 4).slice(2, 4).min().item<float>(), 0.0f);
}

TEST(MultiHeadAttentionTest, AnObserverSeesTheCallAndMayRepeatIt) {
  MultiHeadAttention module(MultiHeadAttentionOptions(8, 4)
                                .kv_heads(2)
                                .causal(Causal::kBottomRight)
                                .position(Scheme(PositionScheme::kAlibi))
                                .keep_attention_weights(true));
  at::Tensor seen, entropy;
  int calls = 0;
  module->observer = [&](const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const AttentionOptions& call) {
    ++calls;
    EXPECT_EQ(query.sizes(), at::IntArrayRef({2, 4, 3, 2}));
    EXPECT_EQ(key.sizes(), at::IntArrayRef({2, 2, 3, 2}));
    const auto again = AttentionOptions(call).return_weights_of(at::tensor({1, 3}, at::kLong)).return_statistics(true);
    const AttentionOutput output = attention(query, key, value, again);
    seen = output.weights;
    entropy = output.statistics[0];
  };
  const at::Tensor X = at::randn({2, 3, 8}), lengths = at::tensor({3, 2});
  module->forward(X, X, X, lengths);
  EXPECT_EQ(calls, 1);
  const at::Tensor weights = module->attention_weights().view({2, 4, 3, 3});
  EXPECT_TRUE(at::equal(seen, weights.index_select(1, at::tensor({1, 3}, at::kLong))));
  EXPECT_TRUE(at::allclose(entropy, -at::xlogy(weights, weights).sum(-1), 0, 1e-5));
}

TEST(MultiHeadAttentionTest, EvaluationDropsNothing) {
  at::manual_seed(4);
  MultiHeadAttention module(8, 2, 0.5), plain(8, 2, 0.0);
  for (const auto& item : plain->named_parameters()) item.value().set_data(module->named_parameters()[item.key()]);
  const at::Tensor X = at::randn({2, 5, 8});
  EXPECT_FALSE(at::allclose(module(X, X, X), plain(X, X, X)));
  module->eval();
  EXPECT_TRUE(at::equal(module(X, X, X), plain(X, X, X)));
}

TEST(MultiHeadAttentionTest, GradientsOfEveryParameter) {
  at::manual_seed(5);
  MultiHeadAttention module(MultiHeadAttentionOptions(4, 2).bias(true).causal(Causal::kBottomRight));
  module->to(at::kDouble);
  const at::Tensor X = at::randn({2, 3, 4}, at::kDouble).set_requires_grad(true), lens = at::tensor({3, 2});
  std::vector<at::Tensor> leaves = module->parameters();
  leaves.push_back(X);
  testing::ExpectLeafGradientsMatch([&] { return module(X, X, X, lens); }, leaves);
}

TEST(MultiHeadAttentionTest, WindowSoftcapAndScaleAreThoseOfAttention) {
  at::manual_seed(12);
  MultiHeadAttention plain(8, 2, 0.0);
  const at::Tensor X = at::randn({1, 9, 8});
  const auto with = [&](MultiHeadAttentionOptions options) {
    MultiHeadAttention module(options);
    for (const auto& item : module->named_parameters()) item.value().set_data(plain->named_parameters()[item.key()]);
    return module(X, X, X);
  };
  const auto split = [](const at::Tensor& Y) { return Y.view({1, 9, 2, 4}).transpose(1, 2); };
  const auto expected = [&](const AttentionOptions& options) {
    const at::Tensor q = split(plain->W_q(X)), k = split(plain->W_k(X)), v = split(plain->W_v(X));
    return plain->W_o(attention(q, k, v, options).output.transpose(1, 2).flatten(2));
  };
  const MultiHeadAttentionOptions options(8, 2);
  const auto copy = [&] { return MultiHeadAttentionOptions(options); };
  EXPECT_TRUE(at::equal(with(copy().window(2, 1)), expected(AttentionOptions().window(2, 1))));
  EXPECT_TRUE(at::equal(with(copy().softcap(0.1)), expected(AttentionOptions().softcap(0.1))));
  EXPECT_TRUE(at::equal(with(copy().scale(1.0)), expected(AttentionOptions().scale(1.0))));
  for (const auto& changed : {copy().window(2, 1), copy().softcap(0.1), copy().scale(1.0)}) {
    EXPECT_FALSE(at::allclose(with(changed), plain(X, X, X)));
  }
}

TEST(MultiHeadAttentionTest, RefusesWhatItCannotDo) {
  ExpectRefused([] { MultiHeadAttention(100, 3, 0.0); }, {"num_hiddens (100)", "num_heads (3)"});
  ExpectRefused([] { MultiHeadAttention(0, 1, 0.0); }, {"num_hiddens (0)"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 4).kv_heads(3)); }, {"kv_heads (3)"});
  ExpectRefused([] { MultiHeadAttention(8, 2, 1.0); }, {"dropout"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).query_size(-1)); }, {"query_size"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).position(Scheme(PositionScheme::kLearned))); },
                {"'learned'", "added to the input"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).position(Scheme(PositionScheme::kRelativeBias, -1))); },
                {"max_distance", "-1"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).window(-2, 0)); }, {"window", "left -2"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).softcap(0.0)); }, {"softcap", "0.0"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).scale(std::nan(""))); }, {"scale"});
  MultiHeadAttention module(8, 2, 0.0);
  const at::Tensor X = at::randn({2, 3, 8});
  ExpectRefused([&] { module(at::randn({2, 3, 7}), X, X); }, {"queries", "[2, 3, 7]", "8"});
  ExpectRefused([&] { module(X, at::randn({3, 8}), X); }, {"keys", "[3, 8]"});
  ExpectRefused([&] { module(X, X, at::Tensor()); }, {"values", "undefined"});
  ExpectRefused([&] { module(X, X, X, at::ones({3})); }, {"valid_lens", "[2] or [2, 3]", "[3]"});
  ExpectRefused([&] { module(X, X, X, at::ones({2}, at::kComplexFloat)); }, {"valid_lens", "Complex"});
}

TEST(MultiHeadAttentionTest, ClonesAreIndependentAndEqual) {
  MultiHeadAttention module(8, 2, 0.0);
  const auto copy = std::dynamic_pointer_cast<MultiHeadAttentionImpl>(module->clone());
  const at::Tensor X = at::randn({1, 4, 8});
  EXPECT_TRUE(at::equal(module(X, X, X), copy->forward(X, X, X)));
  {
    at::NoGradGuard no_grad;
    copy->W_o->weight.zero_();
  }
  EXPECT_FALSE(at::equal(module(X, X, X), copy->forward(X, X, X)));
}

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
  for (const char* name : {"rotary", "alibi", "relative", "t5", "shaw"}) {
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
  ExpectRefused([&] { refuse(X, std::numeric_limits<int64_t>::max() - 4); }, {"max_len is 8"});
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
  ExpectRefused([] { LearnedPositions(4, 0.0, 2, LengthPolicy::kExtend); }, {"cannot be extended"});
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
  ExpectRefused([] { TransformerEncoder(0, 8, 16, 2, 2, 0.0); }, {"vocab_size"});
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
