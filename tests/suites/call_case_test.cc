#include "bench/suites/call_case.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "bench/suites/random_call.h"
#include "heed/error.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

std::string Fault(const std::string& text) {
  return WhatOf<InvalidArgument>([&] { ParseCase(text, "--case"); });
}

TEST(CallCaseTest, ReadsEveryWord) {
  const CallCase c = ParseCase(
      "B2 H8:2 n1:4096 d64:32 bfloat16 causal=top-left window=64:-1 key-lengths query-lengths mask bias=trainable dropout=0.1 "
      "threads=3 pass=forward",
      "--case");
  EXPECT_EQ(c.shape.batch, 2);
  EXPECT_EQ(c.shape.q_heads, 8);
  EXPECT_EQ(c.shape.kv_heads, 2);
  EXPECT_EQ(c.shape.q_len, 1);
  EXPECT_EQ(c.shape.kv_len, 4096);
  EXPECT_EQ(c.shape.head_dim, 64);
  EXPECT_EQ(c.shape.value_dim, 32);
  EXPECT_EQ(c.type, BenchType::kBFloat16);
  EXPECT_EQ(c.causal, Causal::kTopLeft);
  EXPECT_EQ(c.window.left, 64);
  EXPECT_EQ(c.window.right, -1);
  EXPECT_TRUE(c.key_lengths && c.query_lengths && c.mask);
  EXPECT_EQ(c.bias, CallCase::Bias::kTrainable);
  EXPECT_EQ(c.dropout, 0.1);
  EXPECT_EQ(c.threads, 3);
  EXPECT_EQ(c.pass, BenchPass::kForward);
}

TEST(CallCaseTest, WhatIsLeftOutIsPlain) {
  EXPECT_EQ(TextOf(ParseCase("  B1 H4 n77  d63 ", "--case")), "B1 H4 n77 d63 float32 threads=1 pass=both");
  EXPECT_EQ(TextOf(ParseCase("B1 H4:4 n7:7 d6:6 pass=both float32", "--case")), "B1 H4 n7 d6 float32 threads=1 pass=both");
  EXPECT_EQ(TextOf(ParseCase("B1 H4 n9 d8 window=3:0 causal bias=relative", "--case")),
            "B1 H4 n9 d8 float32 causal window=4 bias=relative threads=1 pass=both");
}

TEST(CallCaseTest, TextsReadBackAsTheSameCase) {
  Random random(5);
  for (int drawn = 0; drawn < 500; ++drawn) {
    const std::string text = TextOf(DrawCall(random, {.threads = 2}));
    EXPECT_EQ(TextOf(ParseCase(text, "--case")), text);
  }
}

TEST(CallCaseTest, ErrorsNameTheWord) {
  EXPECT_EQ(Fault(""), "--case: expected the batch, as B2, as word 1 of a case, got ''");
  EXPECT_EQ(Fault("B1 H2 n8"), "--case: expected widths of keys and values, as d64 or d64:32, as word 4 of a case, got ''");
  EXPECT_EQ(Fault("H2 B1 n8 d4"), "--case: expected the batch, as B2, as word 1 of a case, got 'H2'");
  EXPECT_EQ(Fault("B1:2 H2 n8 d4"), "--case: expected one number after B, got 'B1:2'");
  EXPECT_EQ(Fault("B1 H8:3 n8 d4"), "--case: expected a number of key heads that divides the query heads, got 'H8:3'");
  EXPECT_EQ(Fault("B1 H2 n0 d4"), "--case: expected a whole number from 1 to 1073741824 in n0, got '0'");
  EXPECT_EQ(Fault("B1 H2 n8x d4"), "--case: expected a whole number from 1 to 1073741824 in n8x, got '8x'");
  EXPECT_EQ(Fault("B1 H2 n8:9:7 d4"), "--case: expected a whole number from 1 to 1073741824 in n8:9:7, got '9:7'");
  EXPECT_EQ(Fault("B1 H2 n99999999999999999999 d4"),
            "--case: expected a whole number from 1 to 1073741824 in n99999999999999999999, got '99999999999999999999'");
  EXPECT_EQ(
      Fault("B1 H2 n8 d4 float8"),
      "--case: expected a type, causal, window=, key-lengths, query-lengths, mask, bias, dropout=, threads= or pass=, got "
      "'float8'");
  EXPECT_EQ(Fault("B1 H2 n8 d4 float64 float32"), "--case: expected a type once, got 'float32'");
  EXPECT_EQ(Fault("B1 H2 n8 d4 causal causal=top-left"), "--case: expected causal once, got 'causal=top-left'");
  EXPECT_EQ(Fault("B1 H2 n8 d4 causal="), "--case: expected causal or causal=top-left, got 'causal='");
  EXPECT_EQ(Fault("B1 H2 n8 d4 mask=3").substr(0, 24), "--case: expected a type,");
  EXPECT_EQ(Fault("B1 H2 n8 d4 bias=alibi"), "--case: expected bias, bias=trainable or bias=relative, got 'bias=alibi'");
  EXPECT_EQ(Fault("B1 H2 n8 d4 window"), "--case: expected a whole number from 1 to 1073741824 in window, got ''");
  EXPECT_EQ(Fault("B1 H2 n8 d4 window=-2:3"), "--case: expected a whole number from -1 to 1073741824 in window=-2:3, got '-2'");
  EXPECT_EQ(Fault("B1 H2 n8 d4 dropout=1"), "--case: expected a number between 0 and 1 in dropout=1, got '1'");
  EXPECT_EQ(Fault("B1 H2 n8 d4 dropout=nan"), "--case: expected a number between 0 and 1 in dropout=nan, got 'nan'");
  EXPECT_EQ(Fault("B1 H2 n8 d4 threads=0"), "--case: expected a whole number from 1 to 1024 in threads=0, got '0'");
  EXPECT_EQ(Fault("B1 H2 n8 d4 pass=backward"), "--case: expected pass=forward or pass=both, got 'pass=backward'");
}

TEST(CallCaseTest, KeysFollowFromOrderWindowAndLengths) {
  using Keys = std::pair<int64_t, int64_t>;
  const auto keys = [](const std::string& options, int64_t row, int64_t query) {
    return KeysOf(ParseCase("B2 H1 n4:10 d8 " + options, "--case"), row, query);
  };
  EXPECT_EQ(keys("", 0, 3), Keys(0, 10));
  EXPECT_EQ(keys("causal", 0, 0), Keys(0, 7));
  EXPECT_EQ(keys("causal=top-left", 0, 0), Keys(0, 1));
  EXPECT_EQ(keys("causal window=3", 0, 1), Keys(5, 8));
  EXPECT_EQ(keys("window=1:2", 0, 2), Keys(1, 5));
  EXPECT_EQ(keys("window=-1:2", 0, 2), Keys(0, 5));
  EXPECT_EQ(keys("key-lengths", 0, 0), Keys(0, 1));
  EXPECT_EQ(keys("key-lengths", 1, 0), Keys(0, 10));
  EXPECT_EQ(keys("causal window=3 key-lengths", 0, 1), Keys(0, 0));
  EXPECT_EQ(keys("query-lengths", 0, 0), Keys(0, 0));
  EXPECT_EQ(keys("query-lengths", 1, 3), Keys(0, 10));
}

TEST(CallCaseTest, PairsAreThoseOfAllRows) {
  const auto pairs = [](const std::string& text) { return PairsOf(ParseCase(text, "--case")); };
  EXPECT_EQ(pairs("B3 H2 n5 d8"), 3 * 25);
  EXPECT_EQ(pairs("B3 H2 n5 d8 causal"), 3 * 15);
  EXPECT_EQ(pairs("B2 H1 n8 d8 key-lengths"), 8 * (1 + 8));
  EXPECT_EQ(pairs("B2 H1 n8 d8 key-lengths query-lengths"), 1 + 64);
  EXPECT_EQ(pairs("B1 H1 n6 d8 causal window=2"), 1 + 5 * 2);
}

TEST(CallCaseTest, FewQueriesOfFullRowsAreBoundByReading) {
  const auto bound = [](const std::string& text) { return ParseCase(text, "--case").BoundByReading(); };
  EXPECT_TRUE(bound("B1 H8:1 n1:4096 d64 pass=forward"));
  EXPECT_TRUE(bound("B1 H8 n8:4096 d64 causal pass=forward"));
  EXPECT_FALSE(bound("B1 H8 n1:4096 d64 pass=both"));
  EXPECT_FALSE(bound("B1 H8:4 n8:4096 d64 pass=forward"));
  EXPECT_FALSE(bound("B1 H8 n1:4096 d64 causal window=9 pass=forward"));
}

}  // namespace
}  // namespace heed::lab
