// The search for calls that fail: what it draws, and how it makes a case simpler.
#include "reference/fuzz_cases.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "accuracy.h"
#include "reference/random_cases.h"

namespace heed {
namespace {

using reference::Case, reference::PositionKind;

TEST(FuzzCases, HaveWhatIsEasilyForgotten) {
  int jumping = 0, spoiled = 0, headless = 0, windows = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Case c = reference::FuzzCase(seed);
    jumping += c.positions == PositionKind::kJumping;
    spoiled += c.spoiled;
    headless += c.shape.q_heads == 0;
    windows += c.positions == PositionKind::kJumping && c.window.present();
  }
  EXPECT_GT(jumping, 80);
  EXPECT_GT(windows, 40);
  EXPECT_GT(spoiled, 60);
  EXPECT_GT(headless, 3);
}

// What fails are windows over positions that jump, of more than 20 keys: nothing else is left, and no key too many.
TEST(FuzzCases, AreMadeSimplerAsLongAsTheyFail) {
  const auto fails = [](const Case& c) {
    return c.positions == PositionKind::kJumping && c.window.present() && c.shape.kv_len > 20;
  };
  int tried = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Case c = reference::FuzzCase(seed);
    if (!fails(c)) continue;
    ++tried;
    const Case least = reference::Minimised(c, fails);
    EXPECT_TRUE(fails(least)) << least.name;
    EXPECT_EQ(least.shape.kv_len, 21) << least.name;
    EXPECT_LE(least.shape.q_len, 1) << least.name;
    EXPECT_LE(least.shape.q_heads, 1) << least.name;
    EXPECT_EQ(least.dropout, 0) << least.name;
    EXPECT_EQ(least.bias, reference::kNoDense) << least.name;
    EXPECT_EQ(least.mask, reference::kNoDense) << least.name;
    EXPECT_FALSE(least.spoiled || least.packed || least.query_lengths || least.slopes || least.statistics) << least.name;
    const auto again = reference::NamedCase(least.name);
    ASSERT_TRUE(again.has_value()) << least.name;
    EXPECT_TRUE(fails(*again)) << least.name;
    EXPECT_EQ(again->shape.kv_len, 21) << least.name;
    EXPECT_EQ(again->shape.head_dim, least.shape.head_dim) << least.name;
  }
  EXPECT_GT(tried, 10);
}

TEST(FuzzCases, AreNamed) {
  EXPECT_TRUE(reference::NamedCase("fuzz 17").has_value());
  for (const char* name :
       {"fuzz", "fuzz ", "fuzz x", "fuzz 17 | ", "fuzz 17 | no such step", "fuzz -1", "fuzz 99999999999999999999"})
    EXPECT_FALSE(reference::NamedCase(name).has_value()) << name;
  std::set<std::string> names;
  for (const reference::Reduction& reduction : reference::Reductions()) EXPECT_TRUE(names.insert(reduction.name).second);
}

// Calls that the search has found to fail, as small as it made them.
TEST(FuzzCases, ThatFailedOnceAgree) {
  // Rows that look at all keys alike had contextual positions count the keys that they do not look at.
  ExpectAccurate<float>(*reference::NamedCase("fuzz 4872 | one key | one head | width 1"), 4872, "float32");
  // Programs multiplied the gradient of a hidden pair, which is 0, by a derivative at a score of NaN.
  ExpectAccurate<float>(
      *reference::NamedCase("fuzz 596003007537 | one key | width 1 | width of values 1 | one head | no slope_bias | no mask"),
      596003007537, "float32");
  // Weights on request of rows without a key.
  ExpectAccurate<BFloat16>(*reference::NamedCase("fuzz 8468 | width 1 | width of values 1"), 8468, "bfloat16");
}

// Calls that agree, and that the search once took for faults: a contextual position within rounding of the table's end, where
// its slope changes, gradients in float16 that may be off by more than its largest number, and a random program whose score of
// one pair lies within rounding of a kink.
TEST(FuzzCases, StepsAndInfinitiesWithinRoundingAreNoFaults) {
  ExpectAccurate<BFloat16>(
      *reference::NamedCase(
          "fuzz 54000253356 | width of values 1 | no key lengths | no offset of queries | no offset of keys | no "
          "causality | empty rows are 0 | contiguous | not spoiled | no statistics"),
      54000253356, "bfloat16");
  ExpectAccurate<Float16>(
      *reference::NamedCase("fuzz 54000547327 | width of values 1 | no pair_program | no window | empty rows are "
                            "0 | contiguous | no statistics"),
      54000547327, "float16");
  ExpectAccurate<Float16>(
      *reference::NamedCase("fuzz 54000507846 | one key | one batch row | width 1 | width of values 1 | one head"), 54000507846,
      "float16");
  ExpectAccurate<float>(
      *reference::NamedCase("fuzz 146891049696 | width of values 1 | no dropout | no offset of queries | no statistics"),
      146891049696, "float32");
}

}  // namespace
}  // namespace heed
