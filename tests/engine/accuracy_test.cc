// The kernels against the double reference: every case of the table, every SIMD target this CPU has, every type.
#include "accuracy.h"

#include <gtest/gtest.h>

#include <string>

#include "heed/attention.h"
#include "reference/cases.h"
#include "reference/random_cases.h"
#include "targets.h"

namespace heed {
namespace {

using reference::Case;

// Some targets at once: the reference is computed for all of them.
class EachTarget : public ::testing::TestWithParam<std::vector<std::string>> {
 protected:
  // How many random cases: many small ones are tried beside them in every run, see tests/fuzz.
  static uint64_t Seeds() { return IsLong() ? 200 : 40; }
};

TEST_P(EachTarget, AgreesWithTheReferenceOnTheTable) {
  Turn turn;
  for (const Case& c : reference::Cases()) {
    turn.Of([&] { ExpectAccurate<float>(c, 1, "float32", GetParam()); },
            [&] { ExpectAccurate<double>(c, 1, "float64", GetParam()); },
            [&] { ExpectAccurate<BFloat16>(c, 1, "bfloat16", GetParam()); },
            [&] { ExpectAccurate<BFloat16>(reference::Fused(c), 1, "bfloat16", GetParam()); },
            [&] { ExpectAccurate<Float16>(c, 1, "float16", GetParam()); });
  }
}

TEST_P(EachTarget, AgreesWithTheReferenceOnRandomCases) {
  for (uint64_t seed = 1; seed <= Seeds(); ++seed)
    for (const Case& c : reference::RandomCases(seed)) ExpectAccurateInEveryType(c, seed, GetParam());
}

TEST_P(EachTarget, AgreesWithTheReferenceWhereWeightsAreRounded) {
  for (uint64_t seed = 1; seed <= Seeds() / 2; ++seed)
    for (const Case& c : reference::RandomCases(seed))
      ExpectAccurate<BFloat16>(reference::Fused(c), seed, "bfloat16", GetParam());
}

// Where scores are large, dP - sum(dO O) cancels: gradients then show what rounding took from the output, unless it was kept.
TEST_P(EachTarget, RoundsNarrowGradientsOnceWhereTheRemainderIsKept) {
  const auto expect = [](auto element) {
    using T = decltype(element);
    for (const Causal causal : {Causal::kNone, Causal::kBottomRight})
      for (const bool remainder : {true, false}) {
        Case c{};
        c.name = "large scores";
        c.shape = {2, 4, 2, 70, 200, 64, 48};
        c.scale = 1.5;
        c.causal = causal;
        c.remainder = remainder;
        SerialExecutor serial;
        for (const reference::TrialErrors& errors : reference::RunTrials<T>(c, 11, serial, GetParam()))
          EXPECT_EQ(errors.Largest() < reference::kErrorLimit<T>, remainder) << errors.Text();
      }
  };
  expect(BFloat16{});
  expect(Float16{});
  UseTarget("");
}

INSTANTIATE_TEST_SUITE_P(Targets, EachTarget, ::testing::Values(FirstTargets()));
INSTANTIATE_TEST_SUITE_P(LongTargets, EachTarget, ::testing::Values(SupportedTargets()));

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
