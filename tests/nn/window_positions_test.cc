// Schemes of tokens that stand on several axes.
#include "heed/nn/window_biases.h"

#include <cmath>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/init.h>

#include "gradient_check.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/rotations.h"
#include "refusal.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

constexpr int64_t kGridHeads = 2, kGridWidth = 8, kHigh = 3, kWide = 4, kTokens = kHigh * kWide;

struct GridOperands {
  explicit GridOperands(int64_t queries = kTokens, int64_t keys = kTokens, int64_t batch = 2)
      : q(Random({batch, kGridHeads, queries, kGridWidth})),
        k(Random({batch, 1, keys, kGridWidth})),
        v(Random({batch, 1, keys, kGridWidth})) {}
  at::Tensor q, k, v;
};

// [kTokens, 2]: row and column.
at::Tensor Grid() {
  const at::Tensor token = at::arange(kTokens, at::kLong);
  return at::stack({at::div(token, kWide, "floor"), at::remainder(token, kWide)}, 1);
}

// The bias by pair as Swin's own code looks it up, [heads, N, M]; positions [N, 2], [M, 2].
at::Tensor Looked(const at::Tensor& table, const at::Tensor& query, const at::Tensor& key) {
  const at::Tensor d = query.unsqueeze(1) - key;
  const at::Tensor row = (d.select(2, 0) + kHigh - 1) * (2 * kWide - 1) + d.select(2, 1) + kWide - 1;
  return table.index_select(0, row.flatten()).view({query.size(0), key.size(0), kGridHeads}).permute({2, 0, 1});
}

template <class Holder>
Holder Stirred(Holder scheme) {
  scheme->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : scheme->parameters()) torch::nn::init::normal_(parameter);
  return scheme;
}

TEST(SwinBiasTest, AddsTheNumberOfBothDifferences) {
  const SwinBias scheme = Stirred(SwinBias(kGridHeads, WindowShape(kHigh, kWide)));
  EXPECT_EQ(scheme->weight.sizes(), at::IntArrayRef({5 * 7, kGridHeads}));
  const GridOperands in;
  const at::Tensor expected =
      attention(in.q, in.k, in.v, AttentionOptions().bias(Looked(scheme->weight, Grid(), Grid()))).output;
  const auto output = [&](const AttentionOptions& options) { return attention(in.q, in.k, in.v, options).output; };
  const AttentionOptions options = AttentionOptions().position(scheme);
  EXPECT_TRUE(at::allclose(output(options), expected, 0, 1e-12)) << "tokens in the order of a page";
  const at::Tensor listed = Grid().unsqueeze(0), token = at::arange(kTokens, at::kLong);
  EXPECT_TRUE(at::equal(output(AttentionOptions(options).query_positions(listed).key_positions(listed)), output(options)));
  EXPECT_TRUE(at::equal(output(AttentionOptions(options).query_positions(token).key_positions(token)), output(options)));
  // Tokens in any order, another one in each row of the batch.
  const at::Tensor order = at::stack({at::randperm(kTokens), at::randperm(kTokens)});
  const at::Tensor places = Grid().index_select(0, order.flatten()).view({2, kTokens, 2});
  const at::Tensor bias =
      at::stack({Looked(scheme->weight, places[0], places[0]), Looked(scheme->weight, places[1], places[1])});
  EXPECT_TRUE(at::allclose(output(AttentionOptions(options).query_positions(places).key_positions(places)),
                           output(AttentionOptions().bias(bias)), 0, 1e-12));
}

TEST(SwinBiasTest, PartsOfAWindowStandWhereTheyAre) {
  const SwinBias scheme = Stirred(SwinBias(kGridHeads, WindowShape(kHigh, kWide)));
  const GridOperands in;
  const auto moved = AttentionOptions().position(scheme).query_offset(7).key_offset(2);
  const at::Tensor part = attention(in.q.slice(2, 7), in.k.slice(2, 2), in.v.slice(2, 2), moved).output;
  const auto looked = AttentionOptions().bias(Looked(scheme->weight, Grid().slice(0, 7), Grid().slice(0, 2)));
  EXPECT_TRUE(at::allclose(part, attention(in.q.slice(2, 7), in.k.slice(2, 2), in.v.slice(2, 2), looked).output, 0, 1e-12));
}

TEST(SwinBiasTest, PackedSequencesEqualEachAlone) {
  const SwinBias scheme = Stirred(SwinBias(kGridHeads, WindowShape(kHigh, kWide)));
  const GridOperands in(10, 14, 1);
  const std::vector<int64_t> queries{0, 3, 3, 10}, keys{0, 5, 6, 14};
  const auto slice = [](const at::Tensor& t, const std::vector<int64_t>& starts, std::size_t b) {
    return t.slice(2, starts[b], starts[b + 1]);
  };
  const auto options = AttentionOptions().position(scheme);
  const at::Tensor packed =
      attention(in.q, in.k, in.v, AttentionOptions(options).packed(at::tensor(queries), at::tensor(keys))).output;
  for (std::size_t b = 0; b + 1 < queries.size(); ++b) {
    const at::Tensor alone = attention(slice(in.q, queries, b), slice(in.k, keys, b), slice(in.v, keys, b), options).output;
    EXPECT_TRUE(at::allclose(slice(packed, queries, b), alone, 0, 1e-12)) << b;
  }
}

// A user's scheme of one axis, whose table counts every second step.
struct SecondSteps : AttentionPosition {
  at::Tensor bias = Random({kGridHeads, 9});

  AttentionTensors tensors() const override {
    AttentionTensors tensors;
    tensors.relative_bias = bias;
    return tensors;
  }
  bool places() const override { return true; }
  TokenPositions place(const TokenPositions& positions, int64_t /*steps*/) const override {
    if (const auto* first = std::get_if<int64_t>(&positions)) return *first;  // steps in a row stay in a row
    return at::div(std::get<at::Tensor>(positions), 2, "floor");
  }
};

TEST(PlacesTest, OrderAndTablesCountByThem) {
  const auto scheme = std::make_shared<SecondSteps>();
  const auto causal = [&] { return AttentionOptions().causal(true).position(scheme); };
  const GridOperands in(5, 7);
  const auto plain = AttentionOptions().causal(true).relative_bias(scheme->bias);
  EXPECT_TRUE(at::equal(attention(in.q, in.k, in.v, causal()).output, attention(in.q, in.k, in.v, plain).output));
  const at::Tensor query = at::arange(4, 9), key = at::arange(2, 9);
  const auto halved =
      AttentionOptions(plain).query_positions(at::div(query, 2, "floor")).key_positions(at::div(key, 2, "floor"));
  EXPECT_TRUE(at::equal(attention(in.q, in.k, in.v, causal().query_positions(query).key_positions(key)).output,
                        attention(in.q, in.k, in.v, halved).output));
  // Packed: lists are placed sequence by sequence, also those that only count up.
  const GridOperands packed(5, 7, 1);
  const at::Tensor queries = at::tensor({0, 2, 5}, at::kLong), keys = at::tensor({0, 4, 7}, at::kLong);
  const at::Tensor ends = attention(packed.q, packed.k, packed.v, causal().packed(queries, keys)).output;
  const auto halves = [](int64_t begin, int64_t end) { return at::div(at::arange(begin, end), 2, "floor"); };
  const auto alone = [&](int64_t q, int64_t q_end, int64_t k, int64_t k_end) {
    const auto options = AttentionOptions(plain).query_positions(halves(k_end - k - q_end + q, k_end - k));
    return attention(packed.q.slice(2, q, q_end), packed.k.slice(2, k, k_end), packed.v.slice(2, k, k_end),
                     AttentionOptions(options).key_positions(halves(0, k_end - k)))
        .output;
  };
  EXPECT_TRUE(at::allclose(ends.slice(2, 0, 2), alone(0, 2, 0, 4), 0, 1e-12));
  EXPECT_TRUE(at::allclose(ends.slice(2, 2), alone(2, 5, 4, 7), 0, 1e-12));
}

TEST(SwinV2BiasTest, IsTheNetworkOfLogarithmicDifferences) {
  for (const WindowShape pretrained : {WindowShape(), WindowShape(2, 3)}) {
    const SwinV2Bias scheme = Stirred(SwinV2Bias(kGridHeads, WindowShape(kHigh, kWide), 6, pretrained));
    const double high = pretrained.height > 0 ? 1 : kHigh - 1, wide = pretrained.width > 0 ? 2 : kWide - 1;
    for (int64_t y = 1 - kHigh; y < kHigh; ++y) {
      for (int64_t x = 1 - kWide; x < kWide; ++x) {
        const auto scaled = [](double difference) {
          return std::copysign(std::log2(1 + 8 * std::abs(difference)) / std::log2(8.0), difference);
        };
        const at::Tensor at_xy =
            at::tensor({scaled(static_cast<double>(y) / high), scaled(static_cast<double>(x) / wide)}, at::kDouble);
        const at::Tensor units = (at::mv(scheme->first_weight, at_xy) + scheme->first_bias).relu();
        const at::Tensor expected = 16 * at::mv(scheme->second_weight, units).sigmoid();
        const at::Tensor row = scheme->table()[(y + kHigh - 1) * (2 * kWide - 1) + x + kWide - 1];
        EXPECT_TRUE(at::allclose(row, expected, 0, 1e-12)) << y << ", " << x;
      }
    }
    const GridOperands in;
    const auto looked = AttentionOptions().bias(Looked(scheme->table(), Grid(), Grid()));
    EXPECT_TRUE(at::allclose(attention(in.q, in.k, in.v, AttentionOptions().position(scheme)).output,
                             attention(in.q, in.k, in.v, looked).output, 0, 1e-12));
  }
  EXPECT_FALSE(SwinV2Bias(2, 1)->table().isnan().any().item<bool>()) << "a window of one token has no differences";
}

TEST(WindowBiasesTest, GradientsReachTheirNumbers) {
  const auto check = [](const auto& scheme) {
    const GridOperands in(5, 5, 1);
    std::vector<at::Tensor> leaves = scheme->parameters();
    for (const at::Tensor& operand : {in.q, in.k, in.v}) leaves.push_back(operand.set_requires_grad(true));
    testing::ExpectLeafGradientsMatch([&] { return attention(in.q, in.k, in.v, AttentionOptions().position(scheme)).output; },
                                      leaves);
  };
  check(Stirred(SwinBias(kGridHeads, WindowShape(2, 3))));
  check(Stirred(SwinV2Bias(kGridHeads, WindowShape(2, 3), 4)));
}

// A block by itself turns as Rotary does.
TEST(AxialRotaryTest, TurnsEachBlockByItsAxis) {
  const GridOperands in;
  const at::Tensor places = Random({2, kTokens, 2}) * 5;
  for (const RotaryLayout layout : {RotaryLayout::kHalf, RotaryLayout::kInterleaved}) {
    const AxialRotary scheme(kGridWidth, 2, 100.0, layout);
    const Rotary block(kGridWidth / 2, RotaryOptions{.base = 100.0}, layout);
    const auto turned = [&](const at::Tensor& x) {
      return at::cat({block->rotate_query(x.narrow(3, 0, 4), places.select(2, 0)),
                      block->rotate_query(x.narrow(3, 4, 4), places.select(2, 1))},
                     3);
    };
    const at::Tensor expected = attention(turned(in.q), turned(in.k), in.v).output;
    const auto listed = AttentionOptions().position(scheme).query_positions(places).key_positions(places);
    EXPECT_TRUE(at::allclose(attention(in.q, in.k, in.v, listed).output, expected, 0, 1e-12));
    const at::Tensor shift = at::tensor({100.0, -7.0}, at::kDouble);
    const auto shifted = AttentionOptions().position(scheme).query_positions(places + shift).key_positions(places + shift);
    EXPECT_TRUE(at::allclose(attention(in.q, in.k, in.v, shifted).output, expected, 0, 1e-10));
    const at::Tensor one = places.slice(0, 0, 1);
    const auto shared = AttentionOptions().position(scheme).query_positions(one).key_positions(one);
    EXPECT_TRUE(at::allclose(attention(in.q, in.k, in.v, shared).output[0], expected[0], 0, 1e-12));
  }
  EXPECT_TRUE(AxialRotary(12, 3)->parameters().empty());
}

TEST(AxialRotaryTest, PackedSequencesReadTheirPlaces) {
  const GridOperands in(5, 5, 1);
  const at::Tensor starts = at::tensor({0, 3, 5}, at::kLong), places = Random({2, 3, 2});
  const AxialRotary scheme(kGridWidth);
  const auto listed = [&](const at::Tensor& where) {
    return AttentionOptions().position(scheme).query_positions(where).key_positions(where);
  };
  const at::Tensor packed = attention(in.q, in.k, in.v, listed(places).packed(starts, starts)).output;
  const auto second = [](const at::Tensor& t) { return t.slice(2, 3); };
  const at::Tensor alone =
      attention(second(in.q), second(in.k), second(in.v), listed(places.slice(0, 1).slice(1, 0, 2))).output;
  EXPECT_TRUE(at::allclose(second(packed), alone, 0, 1e-12));
}

// Keys turned once, or as given, with the places of all of them.
TEST(AxesTest, CachedTokensStandWhereTheyAre) {
  const at::NoGradGuard no_grad;
  const at::Tensor X = Random({2, 6, 16}), places = Grid().slice(0, 0, 6).unsqueeze(0).expand({2, 6, 2});
  const auto check = [&](const auto& scheme) {
    MultiHeadAttention module(MultiHeadAttentionOptions(16, 2).position(scheme));
    module->to(at::kDouble);
    const at::Tensor whole = module->forward(X, X, X, {}, nullptr, {places, places});
    KeyValueCache cache;
    module->forward(X.slice(1, 0, 4), X.slice(1, 0, 4), X.slice(1, 0, 4), {}, &cache,
                    {places.slice(1, 0, 4), places.slice(1, 0, 4)});
    const at::Tensor last = X.slice(1, 4);
    const at::Tensor step = module->forward(last, last, last, {}, &cache, {places.slice(1, 4), places});
    EXPECT_TRUE(at::allclose(step, whole.slice(1, 4), 0, 1e-12));
    cache.reorder(at::tensor({1, 0}, at::kLong));
    EXPECT_TRUE(at::allclose(module->attend(last.flip(0), cache, {}, {places.slice(1, 4), places}), whole.slice(1, 4).flip(0),
                             0, 1e-12));
    return cache.key_positions();
  };
  EXPECT_TRUE(at::equal(check(AxialRotary(8)), places));
  EXPECT_FALSE(check(Stirred(SwinBias(2, WindowShape(kHigh, kWide)))).defined()) << "keys that are not turned have no places";
}

TEST(AxesTest, ClonesAreIndependentAndEqual) {
  const at::Tensor X = Random({1, 6, 16});
  const auto check = [&](const auto& scheme) {
    MultiHeadAttention module(MultiHeadAttentionOptions(16, 2).position(scheme));
    module->to(at::kDouble);
    const auto copy = std::dynamic_pointer_cast<MultiHeadAttentionImpl>(module->clone());
    const at::Tensor before = module(X, X, X);
    EXPECT_TRUE(at::equal(copy->forward(X, X, X), before));
    const at::NoGradGuard no_grad;
    for (const auto& item : copy->named_parameters())
      if (item.key().starts_with("position.")) item.value().add_(1.5);
    EXPECT_TRUE(at::equal(module(X, X, X), before));
  };
  check(SwinBias(2, WindowShape(kHigh, kWide)));
  check(SwinV2Bias(2, WindowShape(kHigh, kWide), 4));
}

TEST(AxesTest, RefusalsNameTheArgument) {
  const GridOperands in;
  const at::Tensor places = Grid().unsqueeze(0);
  const auto refused = [&](const AttentionOptions& options, const std::vector<std::string>& parts) {
    ExpectRefused([&] { attention(in.q, in.k, in.v, options); }, parts);
  };
  const auto listed = [&](const auto& scheme, const at::Tensor& where) {
    return AttentionOptions().position(scheme).query_positions(where).key_positions(where);
  };
  const SwinBias swin(kGridHeads, WindowShape(kHigh, kWide));
  const AxialRotary axial(kGridWidth);
  refused(AttentionOptions().query_positions(places).key_positions(places), {"query_positions", "[1, 12, 2]", "axes"});
  refused(AttentionOptions().key_positions(places).position(Alibi(kGridHeads)), {"key_positions", "schemes that have axes"});
  refused(listed(axial, places).causal(true), {"causal", "several axes"});
  refused(listed(swin, places).causal(Causal::kTopLeft), {"causal", "several axes"});
  refused(listed(axial, places).window(3, 3), {"window", "several axes"});
  refused(AttentionOptions().position(swin).causal(true), {"causal", "several axes"});
  refused(listed(axial, places).return_statistics(true), {"return_statistics", "several axes"});
  refused(listed(swin, places).score(ScoreProgram(program::Score() * program::KeyPosition())), {"score", "several axes"});
  refused(listed(swin, places).mask_program(MaskProgram(program::KeyPosition() < 3)), {"mask_program", "several axes"});
  refused(AttentionOptions().position(swin).window(3, -1), {"window", "several axes"});
  refused(listed(AxialRotary(kGridWidth, 4), places), {"query_positions", "[batch, steps, 4]"});
  refused(listed(axial, places.to(at::kFloat)), {"query_positions", "int64 or float64"});
  refused(listed(axial, places.slice(1, 1)), {"query_positions", "[2, 12, 2], got [1, 11, 2]"});
  refused(AttentionOptions().position(axial), {"AxialRotary: query_positions", "got none"});
  refused(AttentionOptions().position(axial).query_positions(places), {"AxialRotary: key_positions", "got none"});
  refused(AttentionOptions().position(axial).query_positions(at::arange(kTokens)),
          {"AxialRotary: query_positions", "got [1, 12]"});
  refused(
      AttentionOptions().position(axial).query_positions(places.to(at::kDouble).set_requires_grad(true)).key_positions(places),
      {"query_positions", "no gradient"});
  refused(listed(swin, places.to(at::kDouble)), {"SwinBias: positions", "int64"});
  refused(listed(swin, places + 1), {"SwinBias: positions", "3 x 4"});
  refused(listed(swin, places - 1), {"SwinBias: positions", "3 x 4"});
  refused(AttentionOptions().position(swin).key_offset(1), {"SwinBias: positions", "3 x 4"});
  refused(AttentionOptions().position(SwinBias(3, WindowShape(kHigh, kWide))), {"relative_bias", "[3, 35]"});
  refused(AttentionOptions().position(swin).relative_bias(Random({2, 3})), {"relative_bias", "position"});
  ExpectRefused([] { SwinBias(0, 3); }, {"SwinBias", "heads > 0"});
  ExpectRefused([] { SwinBias(2, 0); }, {"SwinBias", "window of at least 1 x 1"});
  ExpectRefused([] { SwinBias(2, WindowShape(1 << 20, 1 << 20)); }, {"SwinBias", "2^24"});
  ExpectRefused([] { SwinV2Bias(2, 3, 0); }, {"SwinV2Bias", "hidden"});
  ExpectRefused([] { SwinV2Bias(2, 3, 4, WindowShape(0, 2)); }, {"pretrained_window", "0 x 2"});
  ExpectRefused([] { AxialRotary(10, 2); }, {"AxialRotary", "multiple of 2 * axes"});
  ExpectRefused([] { AxialRotary(8, 0); }, {"AxialRotary", "axes > 0"});
  ExpectRefused(
      [] {
        KeyValueCache().append(Random({1, 1, 2, 8}), Random({1, 1, 2, 8}), AxialRotary(8).ptr());
      },
      "key_positions");
}

}  // namespace
}  // namespace heed::nn
