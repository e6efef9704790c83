// The kernels against the double reference: every case of the table, every SIMD target this CPU has, every type.
#include "accuracy.h"

#include <gtest/gtest.h>

#include "heed/attention.h"
#include "reference/cases.h"
#include "reference/random_cases.h"

namespace heed {
namespace {

using reference::Case;

class EachTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { UseTarget(GetParam()); }
  void TearDown() override { UseTarget(""); }
};

TEST_P(EachTarget, AgreesWithTheReferenceOnTheTable) {
  for (const Case& c : reference::Cases()) ExpectAccurateInEveryType(c, 1);
}

TEST_P(EachTarget, AgreesWithTheReferenceOnRandomCases) {
  for (uint64_t seed = 1; seed <= 200; ++seed)
    for (const Case& c : reference::RandomCases(seed)) ExpectAccurateInEveryType(c, seed);
}

TEST_P(EachTarget, AgreesWithTheReferenceWhereWeightsAreRounded) {
  for (const Case& c : reference::Cases()) ExpectAccurate<BFloat16>(reference::Fused(c), 1, "bfloat16");
  for (uint64_t seed = 1; seed <= 100; ++seed)
    for (const Case& c : reference::RandomCases(seed)) ExpectAccurate<BFloat16>(reference::Fused(c), seed, "bfloat16");
}

// Where scores are large, dP - sum(dO O) cancels: gradients then show what rounding took from the output, unless it was kept.
TEST_P(EachTarget, RoundsNarrowGradientsOnceWhereTheRemainderIsKept) {
  const auto worst = [](bool remainder, auto element, Causal causal) {
    Case c{};
    c.name = "large scores";
    c.shape = {2, 4, 2, 70, 200, 64, 48};
    c.scale = 1.5;
    c.causal = causal;
    c.remainder = remainder;
    SerialExecutor serial;
    return reference::RunTrial<decltype(element)>(c, 11, serial).Largest();
  };
  for (const Causal causal : {Causal::kNone, Causal::kBottomRight}) {
    EXPECT_LT(worst(true, BFloat16{}, causal), reference::kErrorLimit<BFloat16>);
    EXPECT_LT(worst(true, Float16{}, causal), reference::kErrorLimit<Float16>);
    EXPECT_GT(worst(false, BFloat16{}, causal), reference::kErrorLimit<BFloat16>);
    EXPECT_GT(worst(false, Float16{}, causal), reference::kErrorLimit<Float16>);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, EachTarget, ::testing::ValuesIn(SupportedTargets()),
                         [](const auto& info) { return info.param; });

TEST(NamedCase, MakesEveryCaseAgain) {
  for (const Case& c : reference::Cases()) EXPECT_EQ(reference::NamedCase(c.name)->shape.kv_len, c.shape.kv_len) << c.name;
  EXPECT_EQ(reference::NamedCase("random 17")->name, "random 17");
  EXPECT_EQ(reference::NamedCase("causal, fused")->precision, Precision::kFused);
  EXPECT_FALSE(reference::NamedCase("causal, fused, fused").has_value());
  for (const reference::Option& a : reference::Options())
    for (const reference::Option& b : reference::Options()) {
      const Case pair = reference::PairCase(a, b, 3);
      const auto again = reference::NamedCase(pair.name);
      ASSERT_TRUE(again.has_value()) << pair.name;
      EXPECT_EQ(again->name, pair.name);
      EXPECT_EQ(again->shape.q_len, pair.shape.q_len) << pair.name;
    }
  for (const char* name :
       {"", "random", "random x", "pair window 3", "pair window + 3", "pair window + nothing 3", "no such row"})
    EXPECT_FALSE(reference::NamedCase(name).has_value()) << name;
}

}  // namespace
}  // namespace heed
