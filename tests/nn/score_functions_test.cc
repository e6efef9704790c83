// Schemes that are functions of the score, and what they share: programs of schemes beside those of calls, scales of schemes.
#include "heed/nn/score_functions.h"

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "gradient_check.h"
#include "heed/nn/multi_head_attention.h"
#include "heed/nn/positions.h"
#include "refusal.h"
#include "tests/nn/random_tensor.h"

namespace heed::nn {
namespace {

constexpr int64_t kHeads = 4, kWidth = 6, kQueries = 7, kKeys = 9;

// What a scheme makes of scores [B, H, N, M] of queries and keys at these positions, out of plain tensor operations.
using ScoreFormula = std::function<at::Tensor(const at::Tensor& scores, const at::Tensor& query, const at::Tensor& key)>;

struct TriedScheme {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::shared_ptr<AttentionPosition> scheme;
  ScoreFormula formula;
};

at::Tensor PerHead(const at::Tensor& numbers) { return numbers.reshape({-1, 1, 1}); }

template <class Holder>
TriedScheme Tried(const char* name, Holder scheme, const std::function<ScoreFormula(const Holder&)>& formula_of) {
  scheme->to(at::kDouble);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : scheme->parameters()) parameter.uniform_(0.2, 1.4);
  return {name, scheme.ptr(), scheme.ptr(), formula_of(scheme)};
}

TriedScheme KerpleSample(KerpleKind kind) {
  return Tried<Kerple>("Kerple", Kerple(kHeads, kind), [kind](const Kerple& s) -> ScoreFormula {
    return [kind, s](const at::Tensor& scores, const at::Tensor& query, const at::Tensor& key) {
      const at::Tensor distance = (query.unsqueeze(1) - key).abs();
      if (kind == KerpleKind::kLog) return scores - PerHead(s->rate) * at::log1p(PerHead(s->scale) * distance);
      return scores - PerHead(s->scale) * at::where(distance > 0, distance.clamp_min(1e-9).pow(PerHead(s->rate)), 0.0);
    };
  });
}

TriedScheme SandwichSample() {
  return Tried<Sandwich>("Sandwich", Sandwich(kHeads, 8), [](const Sandwich&) -> ScoreFormula {
    return [](const at::Tensor& scores, const at::Tensor& query, const at::Tensor& key) {
      const at::Tensor frequencies = at::pow(10000.0, -at::arange(2, 10, 2, at::kDouble) / 8.0);
      const at::Tensor total = ((query.unsqueeze(1) - key).unsqueeze(-1) * frequencies).cos().sum(-1) - 4.0;
      return scores + total / (8.0 * PerHead(at::arange(1, kHeads + 1, at::kDouble)) / kHeads);
    };
  });
}

TriedScheme FireSample() {
  return Tried<Fire>("Fire", Fire(kHeads, 5, 3.5), [](const Fire& s) -> ScoreFormula {
    return [s](const at::Tensor& scores, const at::Tensor& query, const at::Tensor& key) {
      const at::Tensor near = at::log1p(s->c * (query.unsqueeze(1) - key).abs());
      const at::Tensor far = at::log1p(s->c * at::maximum(query, s->multiplier * 3.5)).unsqueeze(1);
      const at::Tensor units = (near / (far + 1e-6)).unsqueeze(-1) * s->first_weight + s->first_bias;
      return scores + at::einsum("nmu,hu->hnm", {units.relu(), s->second_weight}) + PerHead(s->second_bias);
    };
  });
}

TriedScheme TemperatureSample() {
  return Tried<Temperature>("Temperature", Temperature(kHeads), [](const Temperature& s) -> ScoreFormula {
    return [s](const at::Tensor& scores, const at::Tensor&, const at::Tensor&) { return scores * PerHead(s->log_scale.exp()); };
  });
}

TriedScheme WaveSample() {
  return Tried<SinusoidalBias>("SinusoidalBias", SinusoidalBias(kHeads, 3), [](const SinusoidalBias& s) -> ScoreFormula {
    return [s](const at::Tensor& scores, const at::Tensor& query, const at::Tensor& key) {
      const at::Tensor angles = (query.unsqueeze(1) - key).unsqueeze(-1) * at::pow(10000.0, -at::arange(3, at::kDouble) / 3.0);
      return scores + at::einsum("nmt,ht->hnm", {angles.cos(), s->cosine}) + at::einsum("nmt,ht->hnm", {angles.sin(), s->sine});
    };
  });
}

std::vector<TriedScheme> Samples() {
  at::manual_seed(3);
  return {KerpleSample(KerpleKind::kLog),
          KerpleSample(KerpleKind::kPower),
          SandwichSample(),
          FireSample(),
          TemperatureSample(),
          WaveSample()};
}

// Grouped heads, causal, with a soft-cap; the last query beside the last key where no positions are given.
struct TriedCall {
  explicit TriedCall(int64_t kv_heads = 2)
      : q(Random({2, kHeads, kQueries, kWidth})), k(Random({2, kv_heads, kKeys, kWidth})), v(Random({2, kv_heads, kKeys, 5})) {}
  at::Tensor q, k, v;
  at::Tensor query = at::arange(kKeys - kQueries, kKeys, at::kDouble), key = at::arange(kKeys, at::kDouble);

  static AttentionOptions Options(const TriedScheme& sample) {
    return AttentionOptions().causal(true).softcap(5.0).position(sample.scheme);
  }
  at::Tensor Expected(const ScoreFormula& formula) const {
    const auto spread = [](const at::Tensor& x) { return x.repeat_interleave(kHeads / x.size(1), 1); };
    const at::Tensor products = at::matmul(q, spread(k).transpose(-2, -1)) / std::sqrt(static_cast<double>(kWidth));
    const at::Tensor scores = formula(5.0 * at::tanh(products / 5.0), query, key);
    const at::Tensor hidden = key > query.unsqueeze(1);
    return at::matmul(at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), -1), spread(v));
  }
};

TEST(ScoreFunctionsTest, EqualTheirFormulas) {
  for (const TriedScheme& sample : Samples()) {
    TriedCall call;
    EXPECT_TRUE(at::allclose(attention(call.q, call.k, call.v, TriedCall::Options(sample)).output,
                             call.Expected(sample.formula), 0, 1e-12))
        << sample.name;
    // Positions that a call lists, real ones: each query a little behind its key.
    call.query = call.query * 1.5 + 0.25;
    call.key = call.key * 1.5;
    const auto listed = TriedCall::Options(sample).query_positions(call.query).key_positions(call.key);
    EXPECT_TRUE(at::allclose(attention(call.q, call.k, call.v, listed).output, call.Expected(sample.formula), 0, 1e-12))
        << sample.name;
  }
}

TEST(ScoreFunctionsTest, HaveTheGradientsOfTheirFormulas) {
  for (const TriedScheme& sample : Samples()) {
    TriedCall call;
    std::vector<at::Tensor> leaves = sample.module->parameters();
    for (const at::Tensor& operand : {call.q, call.k, call.v}) leaves.push_back(operand.set_requires_grad(true));
    const at::Tensor ours = attention(call.q, call.k, call.v, TriedCall::Options(sample)).output;
    const at::Tensor expected = call.Expected(sample.formula), weight = at::randn_like(expected);
    const auto found = torch::autograd::grad({ours}, leaves, {weight}),
               right = torch::autograd::grad({expected}, leaves, {weight});
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
      EXPECT_TRUE(at::allclose(found[leaf], right[leaf], 1e-10, 1e-12)) << sample.name << ", leaf " << leaf;
  }
}

TEST(ScoreFunctionsTest, AreFollowedByTheProgramOfACall) {
  using namespace heed::program;
  const ScoreProgram own(Tanh(Score()) * Captured(0)(Head()) + Captured::Whole(1)(Batch()) * 0.5);
  for (const TriedScheme& sample : Samples()) {
    TriedCall call;
    const at::Tensor gain = at::rand({kHeads}, at::kDouble).set_requires_grad(true);
    const at::Tensor shift = at::tensor({1, -2}, at::kLong);
    const ScoreFormula both = [&](const at::Tensor& scores, const at::Tensor& query, const at::Tensor& key) {
      return sample.formula(scores, query, key).tanh() * PerHead(gain) + shift.reshape({2, 1, 1, 1}) * 0.5;
    };
    const at::Tensor ours = attention(call.q, call.k, call.v, TriedCall::Options(sample).score(own, {gain, shift})).output;
    const at::Tensor expected = call.Expected(both);
    EXPECT_TRUE(at::allclose(ours, expected, 0, 1e-12)) << sample.name;
    std::vector<at::Tensor> leaves = sample.module->parameters();
    leaves.push_back(gain);
    const at::Tensor weight = at::randn_like(expected);
    const auto found = torch::autograd::grad({ours}, leaves, {weight}),
               right = torch::autograd::grad({expected}, leaves, {weight});
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
      EXPECT_TRUE(at::allclose(found[leaf], right[leaf], 1e-10, 1e-12)) << sample.name << ", leaf " << leaf;
  }
}

TEST(ScoreFunctionsTest, KerplesPowerOneIsAlibi) {
  Kerple kerple(kHeads, KerpleKind::kPower);
  kerple->to(at::kDouble);
  const Alibi alibi(kHeads);
  {
    const at::NoGradGuard no_grad;
    kerple->rate.fill_(1.0);
    kerple->scale.copy_(alibi->slopes);
  }
  const TriedCall call;
  const auto output = [&](const AttentionOptions& options) { return attention(call.q, call.k, call.v, options).output; };
  EXPECT_FALSE(at::allclose(output(AttentionOptions().position(alibi)), output(AttentionOptions().position(kerple)), 0, 1e-6))
      << "the smallest slopes are below 0.01";
  const at::NoGradGuard no_grad;
  kerple->scale.clamp_min_(0.01);
  const auto same = AttentionOptions().slopes(kerple->scale);
  EXPECT_TRUE(at::allclose(output(same), output(AttentionOptions().position(kerple)), 0, 1e-12));
}

TEST(ScoreFunctionsTest, NumbersBeyondKerplesLimitsCountAsTheLimitsAndComeBack) {
  const at::Tensor q = Random({1, 2, 5, 4}), k = Random({1, 2, 6, 4}), v = Random({1, 2, 6, 4}), weight = Random({1, 2, 5, 4});
  for (const KerpleKind kind : {KerpleKind::kLog, KerpleKind::kPower}) {
    const auto results = [&](double rate, double scale) {
      Kerple kerple(2, kind);
      kerple->to(at::kDouble);
      {
        const at::NoGradGuard no_grad;
        kerple->rate.fill_(rate);
        kerple->scale.fill_(scale);
      }
      const at::Tensor output = attention(q, k, v, AttentionOptions().position(kerple)).output;
      const auto gradients = torch::autograd::grad({(output * weight).sum()}, {kerple->rate, kerple->scale});
      return std::vector<at::Tensor>{output, gradients[0], gradients[1]};
    };
    const double above = kind == KerpleKind::kPower ? 2.5 : -0.25;
    const auto beyond = results(above, -3.0), limits = results(kind == KerpleKind::kPower ? 2.0 : 0.01, 0.01);
    for (std::size_t x = 0; x < 3; ++x) EXPECT_TRUE(at::allclose(beyond[x], limits[x], 1e-9, 1e-12)) << x;
    EXPECT_GT(beyond[1].abs().min().item<double>(), 1e-9);
    EXPECT_GT(beyond[2].abs().min().item<double>(), 1e-9);
  }
}

TEST(ScoreFunctionsTest, StartAsThePythonPackageDoes) {
  using Shape = std::vector<int64_t>;
  struct Expected {
    const char* scheme;
    std::vector<std::pair<std::string, Shape>> parameters;
    std::vector<std::pair<double, double>> ranges;
  };
  const double bound = 1 / std::sqrt(32.0);
  const std::vector<Expected> all = {
      {"kerple", {{"rate", {3}}, {"scale", {3}}}, {{0, 2}, {0, 1}}},
      {"kerple_power", {{"rate", {3}}, {"scale", {3}}}, {{0, 2}, {0, 1}}},
      {"sandwich", {}, {}},
      {"fire",
       {{"c", {1}},
        {"multiplier", {1}},
        {"first_weight", {32}},
        {"first_bias", {32}},
        {"second_weight", {3, 32}},
        {"second_bias", {3}}},
       {{0.1f, 0.1f}, {1, 1}, {-1, 1}, {-1, 1}, {-bound, bound}, {-bound, bound}}},
      {"temperature", {{"log_scale", {3}}}, {{0, 0}}},
      {"sinusoidal_bias", {{"cosine", {3, 16}}, {"sine", {3, 16}}}, {{0, 0}, {0, 0}}},
      {"transformer_xl",
       {{"projection", {24, 24}}, {"content_bias", {3, 8}}, {"position_bias", {3, 8}}},
       {{-0.12, 0.12}, {-0.12, 0.12}, {-0.12, 0.12}}},
      {"cope", {{"table", {128, 8}}}, {{0, 0}}},
  };
  for (const Expected& expected : all) {
    const MultiHeadAttention module(
        MultiHeadAttentionOptions(24, 3).position({.scheme = ParsePositionScheme(expected.scheme)}));
    const auto named = module->named_parameters();
    EXPECT_EQ(named.size(), 4 + expected.parameters.size()) << expected.scheme;
    EXPECT_TRUE(module->named_buffers().is_empty()) << expected.scheme;
    for (std::size_t p = 0; p < expected.parameters.size(); ++p) {
      const auto& [name, shape] = expected.parameters[p];
      const at::Tensor& parameter = named["position." + name];
      EXPECT_EQ(parameter.sizes(), at::IntArrayRef(shape)) << name;
      EXPECT_GE(parameter.min().item<double>(), expected.ranges[p].first) << name;
      EXPECT_LE(parameter.max().item<double>(), expected.ranges[p].second) << name;
      if (parameter.numel() > 1 && expected.ranges[p].first < expected.ranges[p].second) {
        EXPECT_GT(parameter.std().item<double>(), 0) << name;
      }
    }
  }
  EXPECT_EQ(Fire(2, 7)->second_weight.sizes(), at::IntArrayRef({2, 7}));
}

// A user's scheme that has all parts: it turns keys once, and has a program, tables and a scale of its own.
struct WholeScheme : torch::nn::Cloneable<WholeScheme>, AttentionPosition {
  WholeScheme() { reset(); }
  void reset() override {
    gain = register_parameter("gain", at::tensor({0.5, 2.0}, at::kDouble));
    bias = register_parameter("bias", at::randn({2, 5}, at::kDouble));
  }
  AttentionTensors tensors() const override {
    AttentionTensors tensors;
    tensors.relative_bias = bias;
    return tensors;
  }
  std::optional<PositionProgram> program() const override {
    using namespace heed::program;
    return PositionProgram{ScoreProgram(Score() * Captured(0)(Head())), {gain}, 2};
  }
  std::optional<double> default_scale(int64_t head_dim) const override { return 3.0 / static_cast<double>(head_dim); }
  bool rotates() const override { return true; }
  bool turns_once() const override { return true; }
  std::pair<at::Tensor, at::Tensor> rotate(const at::Tensor& query, const at::Tensor& key, const TokenPositions& a,
                                           const TokenPositions& b) const override {
    return rotary->rotate(query, key, a, b);
  }
  at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const override {
    return rotary->rotate_query(query, positions);
  }
  at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const override {
    return rotary->rotate_key(key, positions);
  }
  at::Tensor gain, bias;
  Rotary rotary{4};
};

TEST(AttentionPositionTest, AllPartsOfASchemeServeACacheOfTurnedKeys) {
  const at::NoGradGuard no_grad;
  const auto scheme = std::make_shared<WholeScheme>();
  MultiHeadAttention module(MultiHeadAttentionOptions(8, 2).position(scheme).causal(Causal::kBottomRight));
  module->to(at::kDouble);
  const at::Tensor X = Random({2, 6, 8}), whole = module(X, X, X);
  const auto split = [](const at::Tensor& Y) { return Y.unflatten(2, {2, 4}).transpose(1, 2); };
  const auto [q, k] = scheme->rotary->rotate(split(module->W_q(X)), split(module->W_k(X)), 0, 0);
  using namespace heed::program;
  const auto call = AttentionOptions()
                        .causal(true)
                        .scale(0.75)
                        .relative_bias(scheme->bias)
                        .score(ScoreProgram(Score() * Captured(0)(Head())), {scheme->gain});
  const at::Tensor heads = attention(q, k, split(module->W_v(X)), call).output;
  EXPECT_TRUE(at::allclose(whole, module->W_o(heads.transpose(1, 2).flatten(2)), 0, 1e-12));
  KeyValueCache cache;
  std::vector<at::Tensor> steps;
  for (int64_t i = 0; i < 6; ++i) {
    const at::Tensor x = X.narrow(1, i, 1);
    steps.push_back(module->forward(x, x, x, {}, &cache));
  }
  EXPECT_EQ(cache.turned_by().get(), scheme.get());
  EXPECT_TRUE(at::allclose(at::cat(steps, 1), whole, 0, 1e-12));
  // A scale that a module is given takes the place of the scheme's.
  module->options.scale(0.75);
  EXPECT_TRUE(at::equal(module(X, X, X), whole));
  module->options.scale(0.1);
  EXPECT_FALSE(at::allclose(module(X, X, X), whole, 0, 1e-3));
}

// A row whose first keys are padding, with positions that say so, is the row without them.
TEST(AttentionPositionTest, LeftPaddedRowsEqualUnpaddedOnes) {
  for (const std::string& name : PositionSchemeNames()) {
    const PositionOptions options{.scheme = ParsePositionScheme(name), .max_distance = 20};
    if (AddsToInput(options.scheme)) continue;
    MultiHeadAttention module(MultiHeadAttentionOptions(8, 2).position(options).causal(Causal::kBottomRight));
    module->to(at::kDouble);
    const at::NoGradGuard no_grad;
    for (const auto& item : module->named_parameters())
      if (item.key().starts_with("position.")) item.value().uniform_(0.2, 1.4);
    const at::Tensor X = Random({1, 5, 8}), padded = at::cat({Random({1, 3, 8}), X}, 1);
    const at::Tensor where = at::arange(8, at::kLong) - 3;
    const AttentionMasks masks{.mask = at::arange(8).ge(3)};
    const at::Tensor output = module->forward(padded, padded, padded, {}, nullptr, {where, where}, masks);
    EXPECT_TRUE(at::allclose(output.slice(1, 3), module(X, X, X), 0, 1e-12)) << name;
  }
}

TEST(ScoreFunctionsTest, RefusalsNameTheArgument) {
  const TriedCall call;
  ExpectRefused([&] { attention(call.q, call.k, call.v, AttentionOptions().position(Kerple(3))); },
                {"position", "3 heads, query has 4"});
  ExpectRefused([&] { attention(call.q, call.k, call.v, AttentionOptions().position(Sandwich(8))); }, {"position", "8 heads"});
  struct Short : AttentionPosition {
    std::optional<PositionProgram> program() const override {
      using namespace heed::program;
      return PositionProgram{ScoreProgram(Score() + Captured(1)(Head())), {at::ones({4})}};
    }
  };
  ExpectRefused([&] { attention(call.q, call.k, call.v, AttentionOptions().position(std::make_shared<Short>())); },
                {"position", "captured 2 tables, got 1"});
  ExpectRefused([] { Kerple(0); }, {"Kerple", "heads"});
  ExpectRefused([] { Sandwich(2, 7); }, {"head_dim", "even number, got 7"});
  ExpectRefused([] { Fire(2, 0); }, "width > 0");
  ExpectRefused([] { Fire(2, 4, 0.0); }, "threshold > 0");
  ExpectRefused([] { Fire(2, 5000); }, {"Fire: width", "at most 4096 terms, got 5000"});
  ExpectRefused([] { SinusoidalBias(2, 0); }, "frequencies");
  ExpectRefused([] { TransformerXL(2, 4, -1); }, "max_distance: expected at least 0");
  ExpectRefused([&] { attention(call.q, call.k, call.v, AttentionOptions().position(TransformerXL(4, 8))); },
                {"transformer_xl_positions", "[4, 1025, 8]"});
  const TransformerXL alone(4, 8);
  ExpectRefused([&] { alone->rotate_query(call.q, int64_t{0}); }, {"TransformerXL: query", "[batch, 4, steps, 8]"});
  ExpectRefused([&] { alone->rotate_query(at::Tensor(), int64_t{0}); }, {"TransformerXL: query", "undefined"});
}

}  // namespace
}  // namespace heed::nn
