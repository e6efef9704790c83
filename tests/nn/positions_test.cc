// Schemes that act inside attention: what they compute, their parameters and their gradients, by properties and by plain
// tensor operations.
#include "heed/nn/positions.h"

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/init.h>

#include "gradient_check.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/rotary.h"
#include "refusal.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

constexpr int64_t kCallHeads = 2, kCallWidth = 8;  // of a head

std::shared_ptr<torch::nn::Module> ModuleOf(const std::shared_ptr<AttentionPosition>& scheme) {
  return std::dynamic_pointer_cast<torch::nn::Module>(scheme);
}

struct Named {
  std::string name;
  std::shared_ptr<AttentionPosition> scheme;
};

// One of each kind in double, with parameters that differ from zero.
std::vector<Named> Schemes(int64_t heads = kCallHeads) {
  at::manual_seed(1);
  std::vector<Named> schemes = {
      {"alibi", Alibi(heads).ptr()},
      {"trainable slopes", Alibi(heads, /*symmetric=*/false, /*trainable=*/true).ptr()},
      {"relative bias", RelativeBias(heads, 3).ptr()},
      {"T5", T5Bias(heads, T5Options{8, 16, true}).ptr()},
      {"Shaw", Shaw(kCallWidth, 3).ptr()},
      {"Shaw, keys alone", Shaw(kCallWidth, 2, /*with_values=*/false).ptr()},
      {"Shaw, queries too", Shaw(kCallWidth, 2, /*with_values=*/true, /*with_queries=*/true).ptr()},
      {"rotary", Rotary(kCallWidth).ptr()},
      {"rotary, interleaved, partial", Rotary(kCallWidth, RotaryOptions{.rotary_dim = 4}, RotaryLayout::kInterleaved).ptr()},
      {"rotary, yarn", Rotary(kCallWidth, RotaryOptions{.scaling = YarnScaling{4.0, 8}}).ptr()},
      {"Transformer-XL", TransformerXL(heads, kCallWidth, 3).ptr()},
      {"DeBERTa", Deberta(heads, kCallWidth, 3).ptr()},
      {"DeBERTa, buckets", Deberta(heads, kCallWidth, 6, 4, 5).ptr()},
      {"CoPE", Cope(kCallWidth, 4).ptr()},
      {"xPos", XPos(kCallWidth, 10000.0, 8.0).ptr()},
      {"KERPLE", Kerple(heads).ptr()},
      {"KERPLE, power", Kerple(heads, KerpleKind::kPower).ptr()},
      {"Sandwich", Sandwich(heads, 6).ptr()},
      {"FIRE", Fire(heads, 5, 3.5).ptr()},
      {"temperature", Temperature(heads).ptr()},
      {"sinusoidal bias", SinusoidalBias(heads, 3).ptr()},
  };
  for (const Named& named : schemes) {
    ModuleOf(named.scheme)->to(at::kDouble);
    // Of one sign, so that no clamp holds a number back.
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : ModuleOf(named.scheme)->parameters()) {
      torch::nn::init::normal_(parameter, 0.0, 0.5);
      if (ModuleOf(named.scheme)->as<KerpleImpl>()) parameter.abs_().add_(0.1);
    }
  }
  return schemes;
}

struct Operands {
  explicit Operands(int64_t queries = 7, int64_t keys = 7, int64_t batch = 2)
      : q(Random({batch, kCallHeads, queries, kCallWidth})),
        k(Random({batch, kCallHeads, keys, kCallWidth})),
        v(Random({batch, kCallHeads, keys, kCallWidth})) {}
  at::Tensor q, k, v;
};

AttentionOptions Causally(const Named& named) { return AttentionOptions().causal(true).position(named.scheme); }

TEST(PositionsTest, ShiftingAllPositionsChangesNothing) {
  for (const Named& named : Schemes()) {
    const Operands in;
    const auto at_offset = [&](int64_t offset) {
      return attention(in.q, in.k, in.v, Causally(named).query_offset(offset).key_offset(offset)).output;
    };
    // FIRE alone looks at where a query stands.
    EXPECT_EQ(at::allclose(at_offset(5000), at_offset(0), 0, 1e-9), named.name != "FIRE") << named.name;
    const auto apart = attention(in.q, in.k, in.v, Causally(named).query_offset(3)).output;
    EXPECT_FALSE(at::allclose(apart, at_offset(0), 0, 1e-3)) << named.name;
  }
}

TEST(PositionsTest, ListsMeanWhatOffsetsMean) {
  for (const Named& named : Schemes()) {
    const Operands in(7, 9);
    const at::Tensor by_offset = attention(in.q, in.k, in.v, Causally(named).window(4, 0)).output;
    // CoPE counts keys in the order of the sequence, whatever their positions.
    const at::Tensor order = named.name == "CoPE" ? at::arange(9, at::kLong) : at::randperm(9);
    const at::Tensor where = at::arange(9, at::kLong).index_select(0, order);
    const auto listed = Causally(named).window(4, 0).query_positions(at::arange(2, 9, at::kLong)).key_positions(where);
    const at::Tensor by_list = attention(in.q, in.k.index_select(2, order), in.v.index_select(2, order), listed).output;
    EXPECT_TRUE(at::allclose(by_list, by_offset, 0, 1e-12)) << named.name;
  }
}

TEST(PositionsTest, WithoutCausalityQueriesStandAtTheBeginning) {
  for (const Named& named : Schemes()) {
    if (named.name == "xPos") continue;  // it needs causality
    const Operands in(5, 9);
    const auto options = [&] { return AttentionOptions().position(named.scheme); };
    const at::Tensor by_default = attention(in.q, in.k, in.v, options().key_offset(4)).output;
    const auto listed = options().query_positions(at::arange(5, at::kLong)).key_positions(at::arange(4, 13, at::kLong));
    EXPECT_TRUE(at::allclose(attention(in.q, in.k, in.v, listed).output, by_default, 0, 1e-12)) << named.name;
  }
}

TEST(PositionsTest, PackedSequencesEqualEachAlone) {
  const std::vector<int64_t> query_starts{0, 3, 3, 9, 10}, key_starts{0, 5, 7, 13, 14};
  for (const Named& named : Schemes()) {
    const Operands in(10, 14, 1);
    const at::Tensor packed =
        attention(in.q, in.k, in.v, Causally(named).packed(at::tensor(query_starts), at::tensor(key_starts))).output;
    for (size_t b = 0; b + 1 < query_starts.size(); ++b) {
      const auto keys = [&](const at::Tensor& t) { return t.slice(2, key_starts[b], key_starts[b + 1]); };
      const at::Tensor alone =
          attention(in.q.slice(2, query_starts[b], query_starts[b + 1]), keys(in.k), keys(in.v), Causally(named)).output;
      EXPECT_TRUE(at::allclose(packed.slice(2, query_starts[b], query_starts[b + 1]), alone, 0, 1e-12)) << named.name;
    }
  }
}

TEST(PositionsTest, PackedSequencesReadTheirListedPositions) {
  const Operands in(5, 5, 1);
  const at::Tensor starts = at::tensor({0, 3, 5}, at::kLong);
  const at::Tensor rows = at::tensor({4, 9, 2, 7, 1, 0}, at::kLong).view({2, 3});
  for (const Named& named : Schemes()) {
    const auto packed = Causally(named).packed(starts, starts).query_positions(rows).key_positions(rows);
    const at::Tensor output = attention(in.q, in.k, in.v, packed).output.slice(2, 3);
    const auto second = [](const at::Tensor& t) { return t.slice(2, 3); };
    const at::Tensor where = at::tensor({7, 1}, at::kLong);
    const at::Tensor alone =
        attention(second(in.q), second(in.k), second(in.v), Causally(named).query_positions(where).key_positions(where)).output;
    EXPECT_TRUE(at::allclose(output, alone, 0, 1e-12)) << named.name;
  }
}

TEST(PositionsTest, GradientsOfOperandsAndParameters) {
  for (const Named& named : Schemes()) {
    const Operands in(4, 5, 1);
    std::vector<at::Tensor> leaves = ModuleOf(named.scheme)->parameters();
    for (const at::Tensor& operand : {in.q, in.k, in.v}) leaves.push_back(operand.set_requires_grad(true));
    SCOPED_TRACE(named.name);
    testing::ExpectLeafGradientsMatch([&] { return attention(in.q, in.k, in.v, Causally(named).softcap(3.0)).output; }, leaves);
  }
}

// The module's own projections around the functional form, with tensors that are made here.
TEST(PositionsTest, MultiHeadAttentionIsTheFunctionalFormWithTheTensorsOfItsScheme) {
  const at::Tensor X = Random({2, 6, kCallHeads * kCallWidth});
  const auto split = [](const at::Tensor& Y) { return Y.view({2, 6, kCallHeads, kCallWidth}).transpose(1, 2); };
  const auto compare = [&](auto scheme, const std::function<void(at::Tensor&, at::Tensor&, AttentionOptions&)>& arrange) {
    scheme->to(at::kDouble);
    for (const at::Tensor& parameter : scheme->parameters()) torch::nn::init::normal_(parameter);
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
      MultiHeadAttention module(MultiHeadAttentionOptions(kCallHeads * kCallWidth, kCallHeads).position(scheme).causal(causal));
      module->to(at::kDouble);
      at::Tensor q = split(module->W_q(X)), k = split(module->W_k(X));
      const at::Tensor v = split(module->W_v(X));
      AttentionOptions options = AttentionOptions().causal(causal);
      const auto output = [&] { return module->W_o(attention(q, k, v, options).output.transpose(1, 2).flatten(2)); };
      const at::Tensor without = output();
      arrange(q, k, options);
      EXPECT_TRUE(at::allclose(module(X, X, X), output(), 0, 1e-12));
      EXPECT_FALSE(at::allclose(module(X, X, X), without));
    }
  };
  const Alibi alibi(kCallHeads), signed_slopes(kCallHeads, false, true);
  compare(alibi, [](auto&, auto&, auto& options) { options.slopes(at::tensor({0.0625, 0.00390625})); });
  compare(signed_slopes, [&](auto&, auto&, auto& options) { options.slopes(signed_slopes->slopes, false); });
  const RelativeBias relative(kCallHeads, 2);
  compare(relative, [&](auto&, auto&, auto& options) { options.relative_bias(relative->relative_bias); });
  const Shaw shaw(kCallWidth, 2);
  compare(shaw, [&](auto&, auto&, auto& options) { options.content(shaw->keys, shaw->values); });
  const T5Bias t5(kCallHeads, T5Options{4, 4, false});
  // One side of four buckets up to distance 4: 0, 1, 2 and from 3 on; later keys are in bucket 0.
  const at::Tensor bucket = at::tensor({3, 3, 2, 1, 0, 0, 0, 0, 0}, at::kLong);
  compare(t5, [&](auto&, auto&, auto& options) { options.relative_bias(t5->weight.index_select(0, bucket).t()); });
  const Rotary rotary(kCallWidth);
  compare(rotary, [](auto& q, auto& k, auto&) {
    const at::Tensor angles = at::arange(6, at::kDouble).unsqueeze(1) * at::pow(10000.0, -at::arange(4, at::kDouble) / 4.0);
    q = apply_rotary(q, angles.cos(), angles.sin());
    k = apply_rotary(k, angles.cos(), angles.sin());
  });
}

TEST(PositionsTest, ParametersHaveTheNamesShapesAndStartOfThePythonPackage) {
  const std::vector<std::pair<std::string, std::vector<std::pair<std::string, std::vector<int64_t>>>>> expected = {
      {"none", {}},
      {"rotary", {}},
      {"alibi", {}},
      {"relative", {{"position.relative_bias", {2, 41}}}},
      {"t5", {{"position.weight", {32, 2}}}},
      {"shaw", {{"position.keys", {41, 8}}, {"position.values", {41, 8}}}},
  };
  at::manual_seed(2);
  for (const auto& [name, parameters] : expected) {
    MultiHeadAttention module(
        MultiHeadAttentionOptions(16, 2).position({.scheme = ParsePositionScheme(name), .max_distance = 20}));
    const auto named = module->named_parameters();
    EXPECT_EQ(named.size(), 4 + parameters.size()) << name;
    EXPECT_TRUE(module->named_buffers().is_empty()) << name;
    for (const auto& [parameter, shape] : parameters) {
      ASSERT_TRUE(named.contains(parameter)) << parameter;
      EXPECT_EQ(named[parameter].sizes(), at::IntArrayRef(shape));
      EXPECT_TRUE(named[parameter].requires_grad());
      // 328 draws: the estimate of a deviation is off by 4 %.
      const double deviation = name == "shaw" ? 1.0 / std::sqrt(8.0) : 0.0;
      EXPECT_NEAR(named[parameter].std().item<double>(), deviation, 0.16 * deviation) << parameter;
    }
  }
  EXPECT_EQ(Alibi(2, true, true)->named_parameters().keys(), std::vector<std::string>{"slopes"});
  EXPECT_EQ(Shaw(8, 2, false)->named_parameters().keys(), std::vector<std::string>{"keys"});
  EXPECT_EQ(Shaw(1, 0)->keys.sizes(), at::IntArrayRef({1, 1}));  // one column, and one vector for all distances
  EXPECT_TRUE(at::equal(Alibi(8)->slopes, at::pow(2.0, -at::arange(1, 9, at::kFloat))));
}

TEST(PositionsTest, T5BucketsServeThePastAloneUnderCausality) {
  const PositionOptions options{.scheme = PositionScheme::kT5};
  const auto later_keys_differ = [&](bool causal) {
    const auto scheme = std::dynamic_pointer_cast<T5BiasImpl>(MakeAttentionPosition(options, 1, 8, causal));
    at::NoGradGuard no_grad;
    scheme->weight.normal_();
    const at::Tensor table = scheme->table()[0];
    EXPECT_EQ(table.size(0), 257);
    return table.slice(0, 129).ne(table[128]).any().item<bool>();
  };
  EXPECT_FALSE(later_keys_differ(true));
  EXPECT_TRUE(later_keys_differ(false));
}

TEST(PositionsTest, ClonesAreIndependentAndEqual) {
  const at::Tensor X = Random({1, 6, kCallHeads * kCallWidth});
  for (const Named& named : Schemes()) {
    MultiHeadAttention module(
        MultiHeadAttentionOptions(kCallHeads * kCallWidth, kCallHeads).position(named.scheme).causal(Causal::kBottomRight));
    module->to(at::kDouble);
    const auto copy = std::dynamic_pointer_cast<MultiHeadAttentionImpl>(module->clone());
    const at::Tensor before = module(X, X, X);
    EXPECT_TRUE(at::equal(before, copy->forward(X, X, X))) << named.name;
    EXPECT_EQ(copy->named_parameters().keys(), module->named_parameters().keys());
    EXPECT_NE(copy->position, module->position) << named.name;
    if (ModuleOf(named.scheme)->parameters().empty()) continue;
    for (const at::Tensor& parameter : ModuleOf(copy->position)->parameters()) torch::nn::init::normal_(parameter);
    EXPECT_TRUE(at::equal(module(X, X, X), before)) << named.name;
    EXPECT_FALSE(at::allclose(copy->forward(X, X, X), before)) << named.name;
  }
}

TEST(PositionsTest, ModulesMayShareAScheme) {
  const T5Bias bias(kCallHeads);
  const MultiHeadAttentionOptions options =
      MultiHeadAttentionOptions(kCallHeads * kCallWidth, kCallHeads).position(bias).scale(1.0);
  MultiHeadAttention first(options), second(options);
  EXPECT_TRUE(first->named_parameters()["position.weight"].is_same(second->named_parameters()["position.weight"]));
  // A choice by name afterwards takes its place.
  EXPECT_EQ(MultiHeadAttention(MultiHeadAttentionOptions(options).position(PositionOptions{}))->position, nullptr);
}

TEST(PositionsTest, TypesOfQueriesAndOfParametersMayDiffer) {
  for (const Named& named : Schemes()) {
    const Operands in;
    const at::Tensor exact = attention(in.q, in.k, in.v, Causally(named)).output;
    const auto narrow = [&](at::ScalarType type) {
      return attention(in.q.to(type), in.k.to(type), in.v.to(type), Causally(named)).output;
    };
    EXPECT_TRUE(at::allclose(narrow(at::kFloat).to(at::kDouble), exact, 0, 1e-5)) << named.name;
    // Operands and the rotated ones are rounded to 2^-9 of numbers up to 4.
    EXPECT_TRUE(at::allclose(narrow(at::kBFloat16).to(at::kDouble), exact, 0, 0.1)) << named.name;
  }
}

TEST(RotaryPositionTest, LengthOfATextIsThatOfQueriesAndKeysTogether) {
  at::manual_seed(3);
  const at::Tensor query = Random({1, 2, 3, 8}), key = Random({1, 1, 20, 8});
  const RotaryOptions options{.scaling = DynamicScaling{2.0, 10}};
  const Rotary dynamic(8, options), plain(8);
  const at::Tensor at_query = at::tensor({17, 18, 19}, at::kLong), at_key = at::arange(20, at::kDouble);
  RotaryOptions whole = options;
  whole.rotary_dim = 8;
  const RotaryTables tables = rotary_tables(ComputeRotaryFrequencies(whole, 20), at_query, at::kDouble);
  const at::Tensor q = dynamic->rotate(query, key, at_query, at_key).first;
  EXPECT_TRUE(at::equal(q, apply_rotary(query, tables.cos, tables.sin)));
  EXPECT_TRUE(at::equal(q, dynamic->rotate(query, key, 17, 0).first));
  EXPECT_FALSE(at::allclose(q, dynamic->rotate(query, key, 17, 100).first)) << "keys lengthen the text of the queries too";
  EXPECT_FALSE(at::allclose(q, plain->rotate(query, key, 17, 0).first));
}

TEST(PositionsTest, RefusalsNameTheArgument) {
  const Operands in;
  const auto refused = [&](const AttentionOptions& options, const std::vector<std::string>& parts) {
    ExpectRefused([&] { attention(in.q, in.k, in.v, options); }, parts);
  };
  refused(AttentionOptions().relative_bias(Random({2, 5})).position(RelativeBias(2, 3)), {"relative_bias", "position"});
  refused(AttentionOptions().slopes(Random({2})).position(Alibi(2)), {"slopes", "position"});
  refused(AttentionOptions().content(Random({5, 8}), {}).position(Shaw(8, 2)), {"content_keys", "position"});
  refused(AttentionOptions().position(RelativeBias(3, 4)), {"relative_bias", "[3, 9]"});
  refused(AttentionOptions().position(Rotary(16)), {"query", "16", "[2, 2, 7, 8]"});
  const at::Tensor starts = at::tensor({0, 3, 7}, at::kLong), row = at::arange(7, at::kLong);
  const auto rotary = AttentionOptions().position(Rotary(8));
  refused(AttentionOptions(rotary).packed(starts, at::tensor({0, 3, 8}, at::kLong)), {"packed_keys", "7 tokens"});
  refused(AttentionOptions(rotary).packed(starts, {}), {"packed_keys"});
  refused(AttentionOptions(rotary).packed(starts, starts.slice(0, 0, 0)), {"packed_keys"});
  refused(AttentionOptions(rotary).packed(starts, at::tensor({0, 7}, at::kLong)), {"packed_keys", "packed_queries"});
  refused(AttentionOptions(rotary).packed(starts, starts).key_positions(row), {"key_positions", "[1 or 2, 4]"});
  refused(AttentionOptions(rotary).key_positions(at::arange(6, at::kLong)), {"key_positions", "[7]"});

  const Rotary module(8);
  ExpectRefused([&] { module->rotate(in.q, in.k, at::Tensor(), 0); }, {"query_positions", "undefined"});
  ExpectRefused([&] { module->rotate(in.q, in.k, 0, Random({7}).set_requires_grad(true)); }, {"key_positions", "gradient"});
  // float32 holds seconds since 1970 only to multiples of 128; the type decides, as in Python.
  for (const at::ScalarType narrow : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const at::Tensor lost = at::arange(7, narrow);
    ExpectRefused([&] { module->rotate(in.q, in.k, 0, lost); }, {"positions", "int64 or float64"});
    for (const AttentionOptions& options : {AttentionOptions(), rotary, AttentionOptions(rotary).packed(starts, starts)}) {
      refused(AttentionOptions(options).query_positions(row).key_positions(lost), {"key_positions", "int64 or float64"});
      refused(AttentionOptions(options).query_positions(lost).key_positions(row), {"query_positions", "int64 or float64"});
    }
  }
  ExpectRefused([] { Rotary(7); }, {"rotary_dim", "2..7", "got 7"});
  ExpectRefused([] { Rotary(8, RotaryOptions{.rotary_dim = 10}); }, {"rotary_dim", "got 10"});
  ExpectRefused([] { RelativeBias(0, 1); }, "heads");
  ExpectRefused([] { Shaw(8, -1); }, {"max_distance", "-1"});
  ExpectRefused([] { T5Bias(2, T5Options{32, 4, true}); }, {"max_distance", "got 4"});
  ExpectRefused([] { T5Bias(0); }, "heads");
  ExpectRefused([] { MakeAttentionPosition({.scheme = PositionScheme::kLearned}, 2, 8, true); }, {"'learned'", "input"});
  struct NoModule : AttentionPosition {};
  ExpectRefused([] { MultiHeadAttention(MultiHeadAttentionOptions(8, 2).position(std::make_shared<NoModule>())); },
                {"position", "torch::nn::Module"});
}

TEST(PositionTest, SizesBeyondMemoryAreRefusedByName) {
  for (const int64_t huge : {int64_t{1'000'000'000}, int64_t{1} << 62, std::numeric_limits<int64_t>::max()}) {
    const std::string got = "got " + std::to_string(huge);
    const auto refused = [&](const auto& make, const std::string& name) {
      ExpectRefused(make, {name + ": expected at most", got});
    };
    for (const char* name : {"relative", "t5", "shaw", "transformer_xl", "deberta"}) {
      const PositionOptions options{.scheme = ParsePositionScheme(name), .max_distance = huge};
      refused([&] { MakeAttentionPosition(options, 2, 8, true); }, "max_distance");
    }
    refused([&] { Deberta(huge, 8); }, "Deberta: heads");
    refused([&] { Deberta(2, huge); }, "Deberta: head_dim");
    refused([&] { Deberta(2, 8, 512, 0, huge); }, "Deberta: width");
    refused([&] { TransformerXL(huge, 8); }, "TransformerXL: heads");
    refused([&] { TransformerXL(2, 8, 512, huge); }, "TransformerXL: width");
    refused([&] { RelativeBias(huge, 8); }, "RelativeBias: heads");
    refused([&] { Shaw(8, 4, true, true, huge); }, "Shaw: value_dim");
    refused([&] { Cope{huge}; }, "Cope: head_dim");
    refused([&] { T5Bias{huge}; }, "T5Bias: heads");
    refused([&] { Kerple{huge}; }, "Kerple: heads");
    refused([&] { Fire(2, huge); }, "Fire: width");
    refused([&] { SinusoidalBias(2, huge); }, "SinusoidalBias: frequencies");
    refused([&] { SwinBias(huge, 3); }, "SwinBias: heads");
    refused([&] { SwinV2Bias(2, 3, huge); }, "SwinV2Bias: hidden");
    ExpectRefused([&] { Sandwich(2, huge - huge % 2); }, "Sandwich: head_dim: expected at most");
    ExpectRefused([&] { Rotary{huge - huge % 2}; }, {"rotary_dim: expected", "at most 2^24"});
    ExpectRefused([&] { LearnedPositions(8, 0.0, huge); }, "LearnedPositions: max_len: expected a table of at most 2^31");
    ExpectRefused([&] { PositionalEncoding(8, 0.0, huge); }, "PositionalEncoding: max_len: expected a table of at most 2^31");
  }
  ExpectRefused([] { Deberta(1 << 16, 1 << 16); }, "Deberta: heads and head_dim: expected a table of at most 2^31 numbers");
  ExpectRefused([] { Deberta(64, 64, 1 << 24); }, {"Deberta: max_distance: expected a table", "33554433 x 4096"});
  ExpectRefused([] { Cope(1 << 20, 1 << 18); }, {"Cope: head_dim: expected a table", "262144 x 1048576"});
  ExpectRefused([] { RelativeBias(128, 1 << 24); }, {"RelativeBias: max_distance: expected a table", "33554433 x 128"});
  ExpectRefused([] { SwinBias(1 << 12, 1 << 11); }, "SwinBias: window: expected a table of at most 2^31");
}

TEST(PositionSchemeTest, NamesGoBothWays) {
  for (const std::string& name : PositionSchemeNames()) EXPECT_EQ(ToString(ParsePositionScheme(name)), name);
  ExpectRefused([] { ParsePositionScheme("spiral"); },
                {"expected 'none', 'sinusoidal', 'learned', 'rotary', 'alibi', ", "'deberta' or 'cope', got 'spiral'"});
}

}  // namespace
}  // namespace heed::nn
