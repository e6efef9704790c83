// Encoders with the attention of papers before the Transformer, and those in linear time, against their equations in double, a
// row at a time.
#include "heed/nn/attention_models.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/error.h"
#include "heed/nn/intra_temporal_attention.h"
#include "heed/nn/linear_encoders.h"

namespace heed::nn {
namespace {

using Weights = std::vector<at::Tensor>;
// What a layer of a module mixes: X [steps, width] -> the same.
using Mix = std::function<at::Tensor(const torch::nn::Module& encoder, const at::Tensor& X, bool causal)>;

Weights WeightsOf(const torch::nn::Module& encoder, const std::string& part) {
  return encoder.named_children()[part]->parameters();
}

// States of an LSTM, step by step: weights of the input and of the state, and both biases; gates in PyTorch's order.
at::Tensor Lstm(const Weights& weights, const at::Tensor& X) {
  at::Tensor h = at::zeros({weights[1].size(1)}, X.options()), c = h;
  Weights states;
  for (const at::Tensor& x : X.unbind(0)) {
    const auto gates = (weights[0].mv(x) + weights[1].mv(h) + weights[2] + weights[3]).chunk(4);
    c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
    h = gates[3].sigmoid() * c.tanh();
    states.push_back(h);
  }
  return at::stack(states);
}

// What `read` makes of X with half of the weights, beside what it makes with the others from the end.
at::Tensor BothWays(const Weights& weights, const at::Tensor& X, const std::function<at::Tensor(Weights, at::Tensor)>& read) {
  const auto middle = weights.begin() + static_cast<std::ptrdiff_t>(weights.size() / 2);
  return at::cat({read({weights.begin(), middle}, X), read({middle, weights.end()}, X.flip(0)).flip(0)}, 1);
}

// Lin et al. 2017, equations 2 to 7, and the embedding given back to every step.
at::Tensor SelfAttentive(const torch::nn::Module& encoder, const at::Tensor& X, bool causal) {
  const Weights cell = WeightsOf(encoder, "cell0"), rows = WeightsOf(encoder, "attention0"), W = WeightsOf(encoder, "combine0");
  const at::Tensor H = causal ? Lstm(cell, X) : BothWays(cell, X, Lstm);
  Weights outputs;
  for (int64_t i = 0; i < X.size(0); ++i) {
    const at::Tensor seen = H.slice(0, 0, causal ? i + 1 : X.size(0));
    const at::Tensor M = rows[1].mm(rows[0].mm(seen.t()).tanh()).softmax(1).mm(seen);
    Weights given;
    for (int64_t r = 0; r < M.size(0); ++r) given.push_back(W[0].chunk(M.size(0))[r].mv(M[r]));
    outputs.push_back(H[i] + at::cat(given) + W[1]);
  }
  return at::stack(outputs);
}

// Cheng et al. 2016, equations 4 to 9, step by step.
at::Tensor Remembered(const Weights& weights, const at::Tensor& X) {
  const at::Tensor &W_h = weights[0], &W_x = weights[1], &W_g = weights[2], &v = weights[3], &W = weights[4];
  at::Tensor g = at::zeros_like(v), m = g;
  Weights tape, cells;
  for (const at::Tensor& x : X.unbind(0)) {
    if (!tape.empty()) {
      Weights scores;
      for (const at::Tensor& h : tape) scores.push_back(v.dot((W_h.mv(h) + W_x.mv(x) + W_g.mv(g)).tanh()));
      const at::Tensor s = at::stack(scores).softmax(0);
      g = s.matmul(at::stack(tape)), m = s.matmul(at::stack(cells));
    }
    const auto gates = (W.mv(at::cat({g, x})) + weights[5]).chunk(4);
    cells.push_back(gates[1].sigmoid() * m + gates[0].sigmoid() * gates[2].tanh());
    tape.push_back(gates[3].sigmoid() * cells.back().tanh());
  }
  return at::stack(tape);
}

// Paulus et al. 2018, equations 6 to 8, and the state joined with what it attends to. Weights: W, U and its bias.
at::Tensor LookedBack(const Weights& weights, const at::Tensor& X) {
  const at::Tensor h = Lstm(weights, X), &W = weights[4], &U = weights[5];
  Weights outputs;
  for (int64_t t = 0; t < X.size(0); ++t) {
    const at::Tensor past = h.slice(0, 0, t), d = past.mm(W.t()).mv(h[t]).softmax(0).matmul(past);
    outputs.push_back(U.mv(at::cat({h[t], d})) + weights[6]);
  }
  return at::stack(outputs);
}

// x [steps, columns] convolved with the last of w's columns for the step itself, then silu.
at::Tensor ConvolvedInTurns(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  Weights rows;
  for (int64_t t = 0; t < x.size(0); ++t) {
    at::Tensor row = bias;
    for (int64_t back = 0; back <= std::min<int64_t>(t, w.size(1) - 1); ++back)
      row = row + w.select(1, w.size(1) - 1 - back) * x[t - back];
    rows.push_back(row * row.sigmoid());
  }
  return at::stack(rows);
}

at::Tensor Normal(const at::Tensor& y, const at::Tensor& weight) { return y / (y.square().mean() + 1e-5).sqrt() * weight; }

// Columns 2c and 2c + 1 of pairs of halves, turned by t radians times 10000^(-2c/D).
at::Tensor Turned(const at::Tensor& x, int64_t t) {
  const auto halves = x.chunk(2);
  const at::Tensor pair = at::arange(halves[0].size(0), at::kDouble);
  const at::Tensor angle = static_cast<double>(t) * at::pow(10000.0, -2.0 * pair / static_cast<double>(x.size(0)));
  return at::cat({halves[0] * angle.cos() - halves[1] * angle.sin(), halves[1] * angle.cos() + halves[0] * angle.sin()});
}

constexpr int64_t kReaderHeads = 2;

// The equations of heed/nn/linear_encoders.h, one state a head, step by step. Weights: of a convolution, A, dt, D and norm
// those that the kind has, then those of in_proj and out_proj.
template <char kind>
at::Tensor InTurns(const Weights& weights, const at::Tensor& X) {
  constexpr bool kMamba = kind == 'm', kDelta = kind == 'd', kRetention = kind == 'r', kLinear = kind == 'l';
  const at::Tensor *next = weights.data(), *const in = &weights[weights.size() - 4], *const out = in + 2;
  const int64_t hidden = out[0].size(0), inner = out[0].size(1), width = inner / kReaderHeads, gates = kLinear ? 0 : inner;
  const int64_t keys = kMamba ? width : hidden, mixed = inner + 2 * keys;
  const at::Tensor all = X.mm(in[0].t()) + in[1];
  at::Tensor vkq = all.slice(1, gates, gates + mixed);
  if (kMamba || kDelta) vkq = ConvolvedInTurns(vkq, next[0], next[1]), next += 2;
  const at::Tensor* const decays = next;  // A_log and dt_bias
  if (kMamba || kDelta) next += 2;
  const at::Tensor* const skip = kMamba ? next++ : nullptr;
  const int64_t key = kMamba ? keys : keys / kReaderHeads;
  Weights states(kReaderHeads, at::zeros({key, width}, X.options())), outputs;
  Weights sums(kReaderHeads, at::zeros({key}, X.options()));
  for (int64_t t = 0; t < X.size(0); ++t) {
    Weights ys;
    const at::Tensor z = all[t].slice(0, 0, gates), silu = z * z.sigmoid();
    for (int64_t h = 0; h < kReaderHeads; ++h) {
      at::Tensor &S = states[h], v = vkq[t].slice(0, h * width, (h + 1) * width);
      const auto part = [&](int64_t first) {
        const at::Tensor columns = vkq[t].slice(0, first, first + keys);
        return kMamba ? columns : columns.chunk(kReaderHeads)[h];
      };
      at::Tensor k = part(inner), q = part(inner + keys);
      const double scale = 1 / std::sqrt(static_cast<double>(k.size(0)));
      if (kLinear) {
        k = at::where(k > 0, k + 1, k.exp()), q = at::where(q > 0, q + 1, q.exp());
        S = S + at::outer(k, v), sums[h] = sums[h] + k;
        ys.push_back(q.matmul(S) / q.dot(sums[h]));
      } else if (kRetention) {
        S = (1 - std::pow(2.0, -5.0 - static_cast<double>(h))) * S + at::outer(Turned(k, t) * scale, v);
        ys.push_back(Normal(Turned(q, t).matmul(S), next[0]));
      } else {
        const at::Tensor dt = (1 + (all[t][gates + mixed + h] + decays[1][h]).exp()).log(),
                         a = (-decays[0][h].exp() * dt).exp();
        if constexpr (kMamba) {
          S = a * S + dt * at::outer(k, v);
          ys.push_back(q.matmul(S) + (*skip)[h] * v);
        } else {
          q = q / (q.square().sum() + 1e-6).sqrt() * scale, k = k / (k.square().sum() + 1e-6).sqrt();
          S = a * S;
          S = S + all[t][gates + mixed + kReaderHeads + h].sigmoid() * at::outer(k, v - k.matmul(S));
          ys.push_back(Normal(q.matmul(S), next[0]));
        }
      }
    }
    at::Tensor y = at::cat(ys);
    if (kMamba) y = Normal(y * silu, next[0]);
    if (kDelta || kRetention) y = y * silu;
    outputs.push_back(out[0].mv(y) + out[1]);
  }
  return at::stack(outputs);
}

Mix Reader(at::Tensor (*read)(const Weights&, const at::Tensor&)) {
  return [read](const torch::nn::Module& encoder, const at::Tensor& X, bool causal) {
    Weights weights = WeightsOf(encoder, "reader0");
    if (causal) return read(weights, X);
    for (const at::Tensor& weight : WeightsOf(encoder, "reader0_reverse")) weights.push_back(weight);
    return BothWays(weights, X, read);
  };
}

const std::vector<std::pair<std::string, Mix>> kModels = {
    {"self-attentive", SelfAttentive},    {"lstmn", Reader(Remembered)},       {"intra-decoder", Reader(LookedBack)},
    {"linear", Reader(InTurns<'l'>)},     {"retention", Reader(InTurns<'r'>)}, {"mamba2", Reader(InTurns<'m'>)},
    {"gated-delta", Reader(InTurns<'d'>)}};

// Of sum(output * G), G fixed and random, by the leaves.
Weights Gradients(const at::Tensor& output, const Weights& leaves) {
  at::manual_seed(42);
  return torch::autograd::grad({(output * at::randn_like(output)).sum()}, leaves);
}

TEST(AttentionModelsTest, AreTheEquationsOfTheirPapers) {
  const std::vector<int64_t> lengths = {6, 2, 0, 1};
  for (const auto& [name, mix] : kModels) {
    for (const bool causal : {false, true}) {
      at::manual_seed(41);
      const auto encoder =
          MakeEncoder(name, EncoderOptions(8).heads(kReaderHeads).layers(1).norm(Norm::kPost).causal(causal).bias(true));
      encoder->to(at::kDouble);
      encoder->eval();
      const at::Tensor X = at::randn({4, 6, 8}, at::kDouble).set_requires_grad(true);
      // norm(X + mix(X)) of each row alone; what is beyond its length is 0.
      Weights rows;
      for (int64_t b = 0; b < X.size(0); ++b) {
        const at::Tensor row = X[b].slice(0, 0, lengths[b]), rest = at::zeros({6 - lengths[b], 8}, at::kDouble);
        const auto norm = WeightsOf(*encoder, "norm0");
        const at::Tensor mixed =
            lengths[b] == 0 ? row : at::layer_norm(row + mix(*encoder, row, causal), {8}, norm[0], norm[1]);
        rows.push_back(at::cat({mixed, rest}));
      }
      const at::Tensor expected = at::stack(rows), output = encoder->forward(X, at::tensor(lengths));
      EXPECT_TRUE(at::allclose(output, expected, 0, 1e-12)) << name << causal;
      Weights leaves = encoder->parameters();
      leaves.push_back(X);
      const Weights gradients = Gradients(output, leaves), wanted = Gradients(expected, leaves);
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        EXPECT_TRUE(at::allclose(gradients[i], wanted[i], 0, 1e-11)) << name << causal << " leaf " << i;
        EXPECT_GT(wanted[i].abs().max().item<double>(), 0) << name << causal << " leaf " << i;
      }
    }
  }
}

// Steps read a tape of the earlier ones, whose derivatives are formulas of heed.
TEST(AttentionModelsTest, TheTapeOfALstmnHasSecondDerivatives) {
  at::manual_seed(45);
  Lstmn layer(3, 4);
  layer->to(at::kDouble);
  const at::Tensor X = at::randn({1, 5, 3}, at::kDouble).set_requires_grad(true);
  Weights leaves = layer->parameters();
  leaves.push_back(X);
  const auto second = [&](const at::Tensor& output) {
    at::Tensor squares = at::zeros({}, at::kDouble);
    for (const at::Tensor& gradient : torch::autograd::grad({output.square().sum()}, leaves, {}, true, /*create_graph=*/true))
      squares = squares + gradient.square().sum();
    return torch::autograd::grad({squares}, leaves);
  };
  const Weights computed = second(layer(X)), wanted = second(Remembered(layer->parameters(), X[0]));
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    EXPECT_TRUE(at::allclose(computed[i], wanted[i], 1e-10, 1e-10)) << i;
    EXPECT_GT(wanted[i].abs().max().item<double>(), 0) << i;
  }
}

TEST(AttentionModelsTest, ALstmnTrainsUnderAutocast) {
  at::manual_seed(46);
  Lstmn layer(3, 4);
  const at::Tensor X = at::randn({2, 5, 3}).set_requires_grad(true);
  Weights leaves = layer->parameters();
  leaves.push_back(X);
  const Weights wanted = torch::autograd::grad({layer(X).square().sum()}, leaves);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor narrow = layer(X);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  const Weights computed = torch::autograd::grad({narrow.to(at::kFloat).square().sum()}, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(at::allclose(computed[i], wanted[i], 0.1, 0.05)) << i;
}

// Squares of what Mamba-2 normalises here are beyond the 65504 of float16.
TEST(AttentionModelsTest, ThoseInLinearTimeRoundSixteenBitsAtTheirEnds) {
  for (const char* name : {"linear", "retention", "mamba2", "gated-delta"}) {
    at::manual_seed(44);
    const auto encoder = MakeEncoder(name, EncoderOptions(16).heads(kReaderHeads).layers(1).causal(true));
    const torch::NoGradGuard no_grad;
    for (at::Tensor& parameter : encoder->parameters()) parameter.uniform_(0.1, 0.6);
    encoder->eval();
    const at::Tensor X = at::randn({2, 7, 16}), expected = encoder->forward(X);
    encoder->to(at::kHalf);
    EXPECT_TRUE(at::allclose(encoder->forward(X.to(at::kHalf)).to(at::kFloat), expected, 0.02, 0.02)) << name;
  }
}

TEST(AttentionModelsTest, ThoseInLinearTimeTellOfNumbersThatAreNone) {
  for (const char* name : {"linear", "retention", "mamba2", "gated-delta"}) {
    const auto encoder = MakeEncoder(name, EncoderOptions(8).heads(kReaderHeads).layers(1).causal(true));
    encoder->eval();
    at::Tensor X = at::randn({2, 70, 8});
    X.index_put_({1, 66}, NAN);
    const at::Tensor known = encoder->forward(X).isfinite().all(-1);
    EXPECT_TRUE(known[0].all().item<bool>() && known[1].narrow(0, 0, 66).all().item<bool>()) << name;
    EXPECT_FALSE(known[1].narrow(0, 66, 4).any().item<bool>()) << name;
    if (encoder->named_parameters().contains("reader0.A_log")) {
      const torch::NoGradGuard no_grad;
      encoder->named_parameters()["reader0.A_log"].fill_(NAN);
      EXPECT_FALSE(encoder->forward(X).isfinite().any().item<bool>()) << name;
    }
  }
}

TEST(AttentionModelsTest, HeadsDivideWhatReadsOneWay) {
  EXPECT_NO_THROW(MakeEncoder("mamba2", EncoderOptions(20).heads(4).causal(true)));
  try {
    MakeEncoder("mamba2", EncoderOptions(20).heads(4));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(error.what(), "heads: 4 do not divide the 10 columns that read one way, of a width of 20");
  }
}

// Lin et al. 2017, equation 8, of the embeddings that have a step.
TEST(AttentionModelsTest, ThePenaltyIsThatOfTheAnnotationMatrix) {
  for (const bool causal : {false, true}) {
    at::manual_seed(43);
    StructuredAttention layer(StructuredAttentionOptions(6, 3).hidden(5).causal(causal));
    layer->to(at::kDouble);
    EXPECT_FALSE(layer->penalty().defined());
    const std::vector<int64_t> lengths = {4, 0, 2};
    const at::Tensor H = at::randn({3, 4, 6}, at::kDouble).set_requires_grad(true);
    const at::Tensor M = layer(H, at::tensor(lengths));
    EXPECT_EQ(M.sizes(), at::IntArrayRef({3, causal ? 4 : 1, 18}));
    EXPECT_EQ(M[1].abs().max().item<double>(), 0);
    at::Tensor sum = at::zeros({}, at::kDouble);
    int64_t count = 0;
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t end = causal ? 1 : std::max<int64_t>(lengths[b], 1); end <= lengths[b]; ++end, ++count) {
        const at::Tensor seen = H[b].slice(0, 0, end);
        const at::Tensor A = layer->W_s2->weight.mm(layer->W_s1->weight.mm(seen.t()).tanh()).softmax(1);
        sum = sum + (A.mm(A.t()) - at::eye(3, at::kDouble)).square().sum();
      }
    }
    const Weights leaves = {H, layer->W_s1->weight, layer->W_s2->weight};
    const at::Tensor penalty = layer->penalty(), expected = sum / count;
    EXPECT_NEAR(penalty.item<double>(), expected.item<double>(), 1e-12);
    const Weights gradients = torch::autograd::grad({penalty}, leaves), wanted = torch::autograd::grad({expected}, leaves);
    for (std::size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(at::allclose(gradients[i], wanted[i], 0, 1e-12)) << i;
  }
  EXPECT_FALSE(AnnotationPenalty(*MakeEncoder("lstm", EncoderOptions(8))).defined());
  const auto encoder = MakeEncoder("self-attentive", EncoderOptions(8));
  EXPECT_FALSE(AnnotationPenalty(*encoder).defined());
  encoder->forward(at::randn({2, 3, 8}));
  const auto& layers = encoder->as<SelfAttentiveEncoder>()->attentions;
  EXPECT_TRUE(at::equal(AnnotationPenalty(*encoder), layers[0]->penalty() + layers[1]->penalty()));
  EXPECT_THROW(MakeEncoder("self-attentive", EncoderOptions(8).heads(3)), InvalidArgument);
  EXPECT_THROW(Lstmn(8, 0), InvalidArgument);
  EXPECT_THROW(LinearMixer("mamba", 8, 8, 2), InvalidArgument);
  EXPECT_THROW(LinearMixer("mamba2", 8, 8, 3), InvalidArgument);
  EXPECT_THROW(IntraDecoder(0, 8), InvalidArgument);
  EXPECT_THROW(StructuredAttention(StructuredAttentionOptions(6, 0)), InvalidArgument);
  EXPECT_THROW(StructuredAttention(StructuredAttentionOptions(6, 2).dropout(1.0)), InvalidArgument);
}

TEST(AttentionModelsTest, OneColumnAndOneRowAreEnough) {
  const at::Tensor X = at::randn({2, 3, 1});
  // One row of weights that sum to 1.
  StructuredAttention layer(StructuredAttentionOptions(1, 1).hidden(1));
  const at::Tensor M = layer(X);
  EXPECT_EQ(M.sizes(), at::IntArrayRef({2, 1, 1}));
  EXPECT_TRUE(M.ge(std::get<0>(X.min(1, true))).all().item<bool>());
  EXPECT_TRUE(M.le(std::get<0>(X.max(1, true))).all().item<bool>());
  EXPECT_EQ(Lstmn(1, 1)->forward(X).sizes(), X.sizes());
}

// Paulus et al. 2018, equations 1 to 5, of each row without its padding; in one call and step by step.
TEST(AttentionModelsTest, IntraTemporalAttentionIsItsEquations) {
  at::manual_seed(44);
  IntraTemporalAttention layer(5, 6);
  layer->to(at::kDouble);
  const at::Tensor queries = at::randn({3, 4, 5}, at::kDouble).set_requires_grad(true);
  const at::Tensor memory = at::randn({3, 7, 6}, at::kDouble).set_requires_grad(true);
  const std::vector<int64_t> lengths = {7, 3, 0};
  const at::Tensor lens = at::tensor(lengths);
  Weights rows;
  for (int64_t b = 0; b < 3; ++b) {
    const at::Tensor m = memory[b].slice(0, 0, lengths[b]), e = queries[b].mm(layer->attend->weight).mm(m.t());
    Weights steps;
    for (int64_t t = 0; t < 4; ++t) {
      const at::Tensor f = t == 0 ? e[t].exp() : e[t].exp() / e.slice(0, 0, t).exp().sum(0);
      steps.push_back((f / f.sum()).matmul(m));
    }
    rows.push_back(at::stack(steps));
  }
  const at::Tensor expected = at::stack(rows);
  const auto [c, past] = layer(queries, memory, lens);
  EXPECT_TRUE(at::allclose(c, expected, 0, 1e-12));
  EXPECT_TRUE(at::allclose(past[0], queries[0].mm(layer->attend->weight).mm(memory[0].t()).logsumexp(0), 0, 1e-12));
  const Weights leaves = {queries, memory, layer->attend->weight};
  const Weights gradients = Gradients(c, leaves), wanted = Gradients(expected, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(at::allclose(gradients[i], wanted[i], 0, 1e-12)) << i;
  const auto [first, after] = layer(queries.slice(1, 0, 1), memory, lens);
  const auto [others, end] = layer(queries.slice(1, 1, 4), memory, lens, after);
  EXPECT_TRUE(at::allclose(at::cat({first, others}, 1), c, 0, 1e-12));
  EXPECT_TRUE(at::allclose(end, past, 0, 1e-12));
  EXPECT_TRUE(std::get<0>(layer(queries * 1e4, memory)).isfinite().all().item<bool>());
  EXPECT_THROW(layer(queries, memory.slice(0, 0, 2)), InvalidArgument);
  EXPECT_THROW(layer(queries, memory, lens, past.slice(1, 0, 2)), InvalidArgument);
  EXPECT_THROW(IntraTemporalAttention(0, 6), InvalidArgument);
}

}  // namespace
}  // namespace heed::nn
