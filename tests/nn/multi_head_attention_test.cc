#include "heed/nn/multi_head_attention.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/any.h>

#include "gradient_check.h"
#include "heed/nn/positions.h"
#include "refusal.h"

namespace heed::nn {
namespace {

PositionOptions Scheme(PositionScheme scheme, int64_t max_distance = 8) {
  PositionOptions options;
  options.scheme = scheme;
  options.max_distance = max_distance;
  return options;
}

TEST(MultiHeadAttentionTest, ShapesOfTheBook) {
  MultiHeadAttention attention(100, 5, 0.5);
  attention->eval();
  const at::Tensor X = at::ones({2, 4, 100}), Y = at::ones({2, 6, 100}), valid_lens = at::tensor({3, 2});
  EXPECT_EQ(attention(X, Y, Y, valid_lens).sizes(), at::IntArrayRef({2, 4, 100}));
  EXPECT_EQ(attention(X, X, X, valid_lens).sizes(), at::IntArrayRef({2, 4, 100}));
  EXPECT_EQ(attention->named_parameters().keys(),
            (std::vector<std::string>{"W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight"}));
}

TEST(MultiHeadAttentionTest, OldConstructorTakesFiveSizes) {
  // Keys of 3, queries of 4, values of 5 numbers, 6 hidden units in 2 heads, no dropout, biases.
  MultiHeadAttention attention(3, 4, 5, 6, 2, 0.0, true);
  EXPECT_EQ(attention->W_k->weight.sizes(), at::IntArrayRef({6, 3}));
  EXPECT_EQ(attention->W_q->weight.sizes(), at::IntArrayRef({6, 4}));
  EXPECT_EQ(attention->W_v->weight.sizes(), at::IntArrayRef({6, 5}));
  EXPECT_EQ(attention->W_o->bias.sizes(), at::IntArrayRef({6}));
  EXPECT_EQ(attention(at::randn({2, 7, 4}), at::randn({2, 8, 3}), at::randn({2, 8, 5})).sizes(), at::IntArrayRef({2, 7, 6}));
}

// The same module out of plain tensor operations.
at::Tensor Plain(MultiHeadAttentionImpl& module, const at::Tensor& X, const at::Tensor& Y, const at::Tensor& allowed,
                 const at::Tensor& bias = at::zeros({}, at::kDouble)) {
  const auto split = [](const at::Tensor& Z, int64_t heads) {
    return Z.reshape({Z.size(0), Z.size(1), heads, -1}).transpose(1, 2);
  };
  const int64_t heads = module.options.num_heads(), group = heads / module.options.kv_heads();
  const at::Tensor q = split(module.W_q(X), heads);
  const at::Tensor k = split(module.W_k(Y), module.options.kv_heads()).repeat_interleave(group, 1);
  const at::Tensor v = split(module.W_v(Y), module.options.kv_heads()).repeat_interleave(group, 1);
  const at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) / std::sqrt(double(q.size(3))) + bias;
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
  ExpectRefused([] { MultiHeadAttention(0, 1, 0.0); }, "num_hiddens (0)");
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 4).kv_heads(3)); }, "kv_heads (3)");
  ExpectRefused([] { MultiHeadAttention(8, 2, 1.0); }, "dropout");
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).query_size(-1)); }, "query_size");
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).position(Scheme(PositionScheme::kLearned))); },
                {"'learned'", "added to the input"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).position(Scheme(PositionScheme::kRelativeBias, -1))); },
                {"max_distance", "-1"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).window(-2, 0)); }, {"window", "left -2"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).softcap(0.0)); }, {"above 0", "got 0"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).scale(std::nan(""))); }, "scale");
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

TEST(MultiHeadAttentionTest, HeadsHaveAWidthOfTheirOwn) {
  at::manual_seed(20);
  MultiHeadAttention module(MultiHeadAttentionOptions(5, 4).head_dim(3).kv_heads(2).key_size(2).value_size(2).bias(true));
  EXPECT_EQ(module->W_q->weight.sizes(), at::IntArrayRef({12, 5}));
  EXPECT_EQ(module->W_k->weight.sizes(), at::IntArrayRef({6, 2}));
  EXPECT_EQ(module->W_v->weight.sizes(), at::IntArrayRef({6, 2}));
  EXPECT_EQ(module->W_o->weight.sizes(), at::IntArrayRef({5, 12}));
  module->to(at::kDouble);
  const at::Tensor X = at::randn({2, 3, 5}, at::kDouble), Y = at::randn({2, 4, 2}, at::kDouble);
  const at::Tensor lens = at::tensor(std::vector<int64_t>{3, 4});
  const at::Tensor allowed = at::arange(4).lt(lens.reshape({2, 1, 1, 1}));
  EXPECT_TRUE(at::allclose(module(X, Y, Y, lens), Plain(*module, X, Y, allowed), 0, 1e-12));
  std::vector<at::Tensor> leaves = module->parameters();
  testing::ExpectLeafGradientsMatch([&] { return module(X, Y, Y, lens); }, leaves);

  const at::NoGradGuard no_grad;
  const auto copy = std::dynamic_pointer_cast<MultiHeadAttentionImpl>(module->clone());
  EXPECT_TRUE(at::equal(copy->forward(X, Y, Y, lens), module(X, Y, Y, lens)));
  KeyValueCache cache;
  module->append(Y, Y, cache);
  EXPECT_EQ(cache.keys().sizes(), at::IntArrayRef({2, 2, 4, 3}));
  EXPECT_TRUE(at::allclose(module->attend(X, cache, lens), module(X, Y, Y, lens), 0, 1e-12));
  // The width that num_hiddens gives is the same said aloud.
  EXPECT_EQ(MultiHeadAttention(MultiHeadAttentionOptions(12, 4))->options.head_dim(), 3);
}

// The projections around the functional form, whose query and key are as wide as a head.
TEST(MultiHeadAttentionTest, EverySchemeServesHeadsOfAnyWidth) {
  at::manual_seed(21);
  const at::Tensor X = at::randn({2, 6, 10}, at::kDouble);
  const auto split = [](const at::Tensor& Y) { return Y.view({2, 6, 3, 8}).transpose(1, 2); };
  for (const std::string& name : PositionSchemeNames()) {
    const PositionOptions scheme = Scheme(ParsePositionScheme(name), 20);
    if (AddsToInput(scheme.scheme)) continue;
    const Causal causal = name == "xpos" ? Causal::kBottomRight : Causal::kNone;
    MultiHeadAttention module(MultiHeadAttentionOptions(10, 3).head_dim(8).position(scheme).causal(causal));
    module->to(at::kDouble);
    for (const auto& item : module->named_parameters())
      if (item.key().starts_with("position.")) torch::nn::init::normal_(item.value());
    const at::Tensor q = split(module->W_q(X)), k = split(module->W_k(X)), v = split(module->W_v(X));
    const AttentionOutput expected = attention(q, k, v, AttentionOptions().causal(causal).position(module->position));
    EXPECT_TRUE(at::allclose(module(X, X, X), module->W_o(expected.output.transpose(1, 2).flatten(2)), 0, 1e-12)) << name;
    const at::Tensor without =
        module->W_o(attention(q, k, v, AttentionOptions().causal(causal)).output.transpose(1, 2).flatten(2));
    EXPECT_EQ(at::allclose(module(X, X, X), without), name == "none") << name;
  }
}

struct MaskedSample {
  MaskedSample() {
    at::manual_seed(22);
    module->to(at::kDouble);
    X = at::randn({2, 3, 6}, at::kDouble);
    Y = at::randn({2, 4, 6}, at::kDouble);
    mask = at::rand({2, 1, 3, 4}).lt(0.7).logical_or(at::eye(3, 4, at::kBool));  // every query sees a key
    bias = at::randn({2, 1, 4}, at::kDouble).set_requires_grad(true);
    masks = {mask, bias, at::tensor(std::vector<int64_t>{3, 1})};
  }
  MultiHeadAttention module{MultiHeadAttentionOptions(6, 2).bias(true)};
  at::Tensor X, Y, mask, bias, lens = at::tensor(std::vector<int64_t>{4, 3});
  AttentionMasks masks;

  // Rows of padded queries are the output projection of zeros.
  at::Tensor Expected() {
    const at::Tensor seen = mask.logical_and(at::arange(4).lt(lens.reshape({2, 1, 1, 1})));
    const at::Tensor padded = at::arange(3).ge(masks.query_lengths.unsqueeze(1)).unsqueeze(2);
    return at::where(padded, module->W_o->bias, Plain(*module, X, Y, seen, bias));
  }
};

TEST(MultiHeadAttentionTest, MasksBiasesAndQueryLengthsMeetWithLengths) {
  MaskedSample s;
  EXPECT_TRUE(at::allclose(s.module->forward(s.X, s.Y, s.Y, s.lens, nullptr, {}, s.masks), s.Expected(), 0, 1e-12));
  EXPECT_FALSE(at::allclose(s.module(s.X, s.Y, s.Y, s.lens), s.Expected(), 0, 1e-3));
  torch::nn::AnyModule any(s.module);
  EXPECT_TRUE(at::equal(any.forward(s.X, s.Y, s.Y, s.lens), s.module(s.X, s.Y, s.Y, s.lens)));
}

TEST(MultiHeadAttentionTest, GradientsUnderMasksReachTheBiasToo) {
  MaskedSample s;
  std::vector<at::Tensor> leaves = s.module->parameters();
  leaves.push_back(s.bias);
  testing::ExpectLeafGradientsMatch([&] { return s.module->forward(s.X, s.Y, s.Y, s.lens, nullptr, {}, s.masks); }, leaves);
}

TEST(MultiHeadAttentionTest, MasksSpanAllThatACacheHolds) {
  const at::NoGradGuard no_grad;
  MaskedSample s;
  KeyValueCache cache;
  s.module->append(s.Y.narrow(1, 0, 2), s.Y.narrow(1, 0, 2), cache);
  const auto rest = s.Y.narrow(1, 2, 2);
  EXPECT_TRUE(at::allclose(s.module->forward(s.X, rest, rest, s.lens, &cache, {}, s.masks), s.Expected(), 0, 1e-12));
  EXPECT_TRUE(at::allclose(s.module->attend(s.X, cache, s.lens, {}, s.masks), s.Expected(), 0, 1e-12));
  ExpectRefused([&] { s.module->forward(s.X, rest, rest, {}, &cache, {}, {.mask = s.mask}); }, {"mask", "[2, 1, 3, 4]"});
  EXPECT_EQ(cache.length(), 4);
}

TEST(MultiHeadAttentionTest, RefusesMasksThatDoNotFit) {
  const MaskedSample s;
  const auto refuses = [&](const AttentionMasks& masks, const std::vector<std::string>& parts) {
    ExpectRefused([&] { MultiHeadAttention(s.module)->forward(s.X, s.Y, s.Y, {}, nullptr, {}, masks); }, parts);
  };
  refuses({.mask = at::ones({3, 3}, at::kBool)}, {"mask", "[2, 2, 3, 4]", "3, 3]"});
  refuses({.mask = at::ones({3, 4})}, {"mask", "Float"});
  refuses({.bias = at::zeros({2, 2, 2, 4})}, {"bias", "[2, 2, 2, 4]"});
  refuses({.bias = at::ones({3, 4}, at::kLong)}, {"bias", "Long"});
  refuses({.query_lengths = at::tensor(std::vector<int64_t>{3, 4})}, {"query_lengths", "0..3", "4"});
  refuses({.query_lengths = at::tensor(std::vector<int64_t>{3})}, {"query_lengths", "B = 2"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).head_dim(-1)); }, {"head_dim", "-1"});
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(0, 2).head_dim(4)); }, "num_hiddens (0)");
}

}  // namespace
}  // namespace heed::nn
