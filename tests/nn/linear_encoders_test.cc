// States of encoders in linear time: steps that go on from them are the whole pass.
#include "heed/nn/linear_encoders.h"

#include <cmath>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "heed/error.h"
#include "heed/nn/cache.h"
#include "refusal.h"

namespace heed::nn {
namespace {

const std::vector<std::string> kKinds = {"linear", "retention", "mamba2", "gated-delta"};

LinearEncoder Make(const std::string& kind, Norm norm = Norm::kPre) {
  at::manual_seed(61);
  LinearEncoder encoder(EncoderOptions(8).mixer(kind).heads(2).ffn_width(12).bias(true).causal(true).norm(norm));
  encoder->to(at::kDouble);
  encoder->eval();
  return encoder;
}

at::Tensor Sample(int64_t batch, int64_t steps) { return at::randn({batch, steps, 8}, at::kDouble); }

// Beyond the chunks of 64 steps, in which a whole pass is cut.
TEST(LinearStateTest, StepsEqualTheWholePass) {
  const at::NoGradGuard no_grad;
  for (const std::string& kind : kKinds) {
    for (const Norm norm : {Norm::kPre, Norm::kPost}) {
      LinearEncoder encoder = Make(kind, norm);
      ASSERT_TRUE(encoder->CanStep());
      const at::Tensor X = Sample(3, 150), whole = encoder(X);
      for (const std::vector<int64_t>& counts : {std::vector<int64_t>(150, 1), {2, 1, 0, 70, 1, 3, 73}}) {
        LayerCaches caches(2);
        std::vector<at::Tensor> parts;
        for (const at::Tensor& part : X.split_with_sizes(counts, 1)) parts.push_back(encoder->step(part, caches));
        EXPECT_TRUE(at::allclose(at::cat(parts, 1), whole, 0, 1e-12)) << kind;
        EXPECT_EQ(caches.length(), 150);
      }
    }
    // Halves of the width that read from the end have no step.
    LayerCaches caches(2);
    LinearEncoder both_ways(EncoderOptions(8).mixer(kind).heads(2));
    EXPECT_FALSE(both_ways->CanStep());
    ExpectRefused([&] { both_ways->step(at::zeros({1, 1, 8}), caches); }, "encoders in linear time can");
  }
}

// All that is kept: the memory behind the tensors too.
TEST(LinearStateTest, DoesNotGrowWithTheSteps) {
  const at::NoGradGuard no_grad;
  for (const std::string& kind : kKinds) {
    LinearEncoder encoder = Make(kind);
    LayerCaches caches(2);
    const auto bytes = [&] {
      std::size_t sum = 0;
      for (std::size_t layer = 0; layer < 2; ++layer) {
        EXPECT_FALSE(caches[layer].keys().defined());
        for (const at::Tensor& kept : {caches.state(layer).state, caches.state(layer).inputs})
          if (kept.defined()) sum += kept.storage().nbytes();
      }
      return sum;
    };
    encoder->step(Sample(2, 100), caches);
    const std::size_t first = bytes();
    EXPECT_LE(first, 2 * 2 * sizeof(double) * (2 * 8 * 9 + 3 * 32)) << kind;
    for (int64_t step = 0; step < 20; ++step) encoder->step(Sample(2, 1), caches);
    EXPECT_EQ(bytes(), first) << kind;
    EXPECT_EQ(caches.state(0).state.size(3), caches.state(1).state.size(3));
  }
}

TEST(LinearStateTest, BeginsAnewAndTakesOtherRows) {
  const at::NoGradGuard no_grad;
  for (const std::string& kind : kKinds) {
    LinearEncoder encoder = Make(kind);
    LayerCaches caches(2);
    const at::Tensor X = Sample(3, 9), whole = encoder(X), rows = at::tensor(std::vector<int64_t>{2, 0, 2, 2});
    encoder->step(X.slice(1, 0, 6), caches);
    for (const int64_t length : {3, 7, -1}) ExpectRefused([&] { caches.truncate(length); }, "expected 0 or 6");
    caches.truncate(6);
    caches.reorder(rows);
    ExpectRefused([&] { caches.reorder(at::tensor(std::vector<int64_t>{4})); }, "batch rows below 4");
    const at::Tensor after = encoder->step(X.index_select(0, rows).slice(1, 6, 9), caches);
    EXPECT_TRUE(at::allclose(after, whole.index_select(0, rows).slice(1, 6, 9), 0, 1e-12)) << kind;
    caches.truncate(0);
    EXPECT_EQ(caches.length(), 0);
    EXPECT_TRUE(at::allclose(encoder->step(X, caches), whole, 0, 1e-12)) << kind;
  }
}

TEST(LinearStateTest, WhatIsRefusedLeavesItAsItWas) {
  for (const std::string& kind : kKinds) {
    LinearEncoder encoder = Make(kind);
    LayerCaches caches(2), three(3);
    const at::Tensor X = Sample(2, 6);
    ExpectRefused([&] { encoder->step(X, caches); }, "no gradients to be recorded");
    const at::NoGradGuard no_grad;
    encoder->step(X.slice(1, 0, 4), caches);
    ExpectRefused([&] { encoder->step(X, three); }, "2 layers, got 3");
    ExpectRefused([&] { encoder->step(Sample(3, 1), caches); },
                  {"LinearMixer: state: expected Double [3, 2, ", "got Double [2, 2, "});
    ExpectRefused([&] { encoder->step(at::zeros({2, 1, 7}, at::kDouble), caches); }, "X: expected shape [batch, steps, 8]");
    caches.state(1).state = at::zeros({1});  // found out by the second layer
    const at::Tensor first = caches.state(0).state;
    ExpectRefused([&] { encoder->step(X, caches); }, "got Float [1]");
    EXPECT_TRUE(caches.state(0).state.is_same(first));
    EXPECT_EQ(caches.length(), 4);
    // Keys and values for states, and the other way round.
    AttentionEncoder attention(EncoderOptions(8).heads(2).causal(true));
    attention->to(at::kDouble);
    ExpectRefused([&] { attention->step(X, caches); }, "AttentionEncoder: caches: expected keys and values");
    LayerCaches keys(2);
    attention->step(X, keys);
    ExpectRefused([&] { encoder->step(X, keys); }, "LinearEncoder: caches: expected states");
  }
}

// As in a whole pass: a row's answers behind a number that is none are none, whatever the next call brings.
TEST(LinearStateTest, TellsOfNumbersThatAreNone) {
  const at::NoGradGuard no_grad;
  for (const std::string& kind : kKinds) {
    LinearEncoder encoder = Make(kind);
    LayerCaches caches(2);
    at::Tensor X = Sample(2, 12);
    const at::Tensor whole = encoder(X);
    X.index_put_({1, 3}, NAN);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : X.split_with_sizes({3, 1, 1, 4, 3}, 1)) parts.push_back(encoder->step(part, caches));
    const at::Tensor steps = at::cat(parts, 1);
    EXPECT_TRUE(at::allclose(steps[0], whole[0], 0, 1e-12)) << kind;
    EXPECT_TRUE(at::allclose(steps[1].slice(0, 0, 3), whole[1].slice(0, 0, 3), 0, 1e-12)) << kind;
    EXPECT_FALSE(steps[1].slice(0, 3).isfinite().any().item<bool>()) << kind;
  }
}

TEST(LinearStateTest, IsFloatBesideSixteenBits) {
  const at::NoGradGuard no_grad;
  for (const std::string& kind : kKinds) {
    LinearEncoder encoder = Make(kind);
    encoder->to(at::kBFloat16);
    LayerCaches caches(2);
    const at::Tensor X = Sample(2, 40).to(at::kBFloat16);
    std::vector<at::Tensor> parts;
    for (const at::Tensor& part : X.split(1, 1)) parts.push_back(encoder->step(part, caches));
    EXPECT_EQ(caches.state(0).state.scalar_type(), at::kFloat);
    EXPECT_TRUE(at::allclose(at::cat(parts, 1).to(at::kFloat), encoder(X).to(at::kFloat), 0.05, 0.05)) << kind;
  }
}

}  // namespace
}  // namespace heed::nn
