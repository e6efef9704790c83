#include "lab/data/random.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

// The state {1, 2, 3, 4} of the authors' published program yields these numbers; their first is rotl(1 + 4, 23) + 1.
TEST(Random, FollowsXoshiro256PlusPlus) {
  Random random(Random::State{1, 2, 3, 4});
  EXPECT_EQ(random.Next(), 41943041u);
  EXPECT_EQ(random.Next(), 58720359u);
  EXPECT_EQ(random.Next(), 3588806011781223u);
  EXPECT_EQ(random.Next(), 3591011842654386u);
}

// SplitMix64 started at 1234567 yields these (the reference program of Steele, Lea and Flood 2014).
TEST(Random, FillsItsStateBySplitMix64) {
  const Random random(1234567);
  EXPECT_EQ(random.state()[0], 6457827717110365317u);
  EXPECT_EQ(random.state()[1], 3203168211198807973u);
}

TEST(Random, GoesOnFromASavedState) {
  Random random(5);
  for (int i = 0; i < 10; ++i) random.Next();
  Random copy(random.state());
  for (int i = 0; i < 10; ++i) EXPECT_EQ(copy.Next(), random.Next());
}

TEST(Random, BelowCoversItsRangeEvenly) {
  Random random(7);
  constexpr int kValues = 6, kDraws = 60000;
  std::array<int, kValues> seen{};
  for (int i = 0; i < kDraws; ++i) {
    const uint64_t value = random.Below(kValues);
    ASSERT_LT(value, static_cast<uint64_t>(kValues));
    ++seen[value];
  }
  // Six standard deviations of a binomial count.
  const double expected = 1.0 * kDraws / kValues, deviation = std::sqrt(expected * (1.0 - 1.0 / kValues));
  for (const int count : seen) EXPECT_NEAR(count, expected, 6 * deviation);
}

// With a bound of 3 * 2^62 the naive product maps 4 inputs to every third value; the rejection must undo that.
TEST(Random, BelowHasNoBiasAtLargeBounds) {
  Random random(11);
  const uint64_t bound = uint64_t{3} << 62;
  constexpr int kDraws = 30000;
  std::array<int, 3> seen{};
  for (int i = 0; i < kDraws; ++i) ++seen[random.Below(bound) % 3];
  for (const int count : seen) EXPECT_NEAR(count, kDraws / 3.0, 6 * std::sqrt(kDraws * 2.0 / 9.0));
}

TEST(Random, UniformStaysBelowOne) {
  Random random(3);
  double sum = 0.0;
  for (int i = 0; i < 10000; ++i) {
    const double value = random.Uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 6 * std::sqrt(1.0 / 12 / 10000));
}

}  // namespace
}  // namespace heed::lab
