#include "bench/suites/random_call.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

std::vector<CallCase> Drawn(uint64_t seed, int count, const DrawLimits& limits) {
  Random random(seed);
  std::vector<CallCase> cases;
  cases.reserve(static_cast<std::size_t>(count));
  for (int drawn = 0; drawn < count; ++drawn) cases.push_back(DrawCall(random, limits));
  return cases;
}

TEST(RandomCallTest, TheSeedSaysWhichCalls) {
  const auto texts = [](uint64_t seed) {
    std::vector<std::string> list;
    list.reserve(20);
    for (const CallCase& c : Drawn(seed, 20, {.threads = 2})) list.push_back(TextOf(c));
    return list;
  };
  EXPECT_EQ(texts(1), texts(1));
  EXPECT_NE(texts(1), texts(2));
}

TEST(RandomCallTest, StaysWithinTheLimits) {
  const DrawLimits limits{.bytes = 100e6, .operations = 1e9, .longest = 5000, .threads = 3};
  for (const CallCase& c : Drawn(3, 2000, limits)) {
    EXPECT_LE(BytesOf(c), limits.bytes) << TextOf(c);
    EXPECT_LE(OperationsOf(c), limits.operations) << TextOf(c);
    EXPECT_LE(std::max(c.shape.q_len, c.shape.kv_len), 5000) << TextOf(c);
    EXPECT_TRUE(c.threads == 1 || c.threads == 3) << TextOf(c);
    EXPECT_EQ(c.shape.q_heads % c.shape.kv_heads, 0) << TextOf(c);
  }
}

// Every kind at least once in a hundred calls.
TEST(RandomCallTest, DrawsEveryKindOfCall) {
  using Bias = CallCase::Bias;
  std::map<std::string, int> counts;
  const std::vector<CallCase> cases = Drawn(4, 3000, {.threads = 2});
  for (const CallCase& c : cases) {
    const Shape& s = c.shape;
    ++counts[TypeNames()[static_cast<std::size_t>(c.type)]];
    counts["decoding"] += s.q_len <= 8 && s.kv_len >= 512;
    counts["tiny"] += s.q_len <= 16 && s.kv_len <= 16;
    counts["long"] += s.kv_len >= 4096;
    counts["grouped"] += s.q_heads > s.kv_heads;
    counts["batch"] += s.batch > 1;
    counts["odd width"] += s.head_dim % 2;
    counts["two widths"] += s.head_dim != s.value_dim;
    counts["causal"] += c.causal == Causal::kBottomRight && s.q_len == s.kv_len;
    counts["bottom right"] += c.causal == Causal::kBottomRight && s.q_len != s.kv_len;
    counts["top left"] += c.causal == Causal::kTopLeft;
    counts["window"] += c.window.present();
    counts["window ahead"] += c.window.right > 0;
    counts["key lengths"] += c.key_lengths;
    counts["query lengths"] += c.query_lengths;
    counts["mask"] += c.mask;
    counts["bias"] += c.bias == Bias::kConstant;
    counts["trainable bias"] += c.bias == Bias::kTrainable;
    counts["relative bias"] += c.bias == Bias::kTrainableRelative;
    counts["dropout"] += c.dropout > 0;
    counts["two threads"] += c.threads == 2;
    counts["forward"] += c.pass == BenchPass::kForward;
    counts["both"] += c.pass == BenchPass::kForwardBackward;
  }
  for (const auto& [kind, count] : counts) EXPECT_GE(count, 30) << kind;
}

TEST(RandomCallTest, LimitsThatNoCallKeepsAreRefused) {
  Random random(6);
  EXPECT_EQ(WhatOf<InvalidArgument>([&] { DrawCall(random, {.bytes = 1 << 20}); }),
            "--search-memory: expected more, 1 MiB are too few for nearly all calls");
}

TEST(RandomCallTest, ScoresAreCountedWhereLibTorchStoresThem) {
  const auto bytes = [](const std::string& options) { return BytesOf(ParseCase("B1 H1 n8192 d64 " + options, "--case")); };
  const double scores = 8192.0 * 8192 * 4;
  EXPECT_LT(bytes("causal"), scores);
  EXPECT_LT(bytes(""), scores);
  EXPECT_GT(bytes("dropout=0.1"), 5 * scores);
  EXPECT_GT(bytes("bias=relative"), 5 * scores);
  EXPECT_GT(bytes("bias"), scores);
  EXPECT_GT(bytes("window=9"), scores / 4);
}

}  // namespace
}  // namespace heed::lab
