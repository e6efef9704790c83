#include "lab/inspection/weight_map.h"

#include <cmath>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

TEST(WeightCode, ComesBackWithinTheStatedError) {
  for (const int steps : {1, 3, 6, 12}) {
    const WeightCode code(steps);
    double worst = 0;
    // From just above the least weight to 1, in steps that are no multiple of the code's.
    for (int i = 0; std::pow(0.9973, i) > code.least(); ++i) {
      const double weight = std::pow(0.9973, i);
      worst = std::max(worst, std::abs(code.Decode(code.Encode(weight)) / weight - 1));
    }
    EXPECT_LE(worst, code.relative_error() * (1 + 1e-12)) << steps;
    EXPECT_GT(worst, 0.9 * code.relative_error()) << steps << ": the stated error is not a loose one";
  }
  EXPECT_NEAR(WeightCode(12).relative_error(), 0.0293, 1e-4);
}

TEST(WeightCode, EndsAreExact) {
  const WeightCode code(12);
  EXPECT_EQ(code.Encode(0.0), 0);
  EXPECT_EQ(code.Decode(0), 0.0);
  EXPECT_EQ(code.Encode(1.0), 255);
  EXPECT_EQ(code.Decode(255), 1.0);
  EXPECT_EQ(code.Encode(code.least() * 0.999), 0);
  EXPECT_GT(code.Encode(code.least() * 1.001), 0);
  EXPECT_LT(4096 * code.least(), 0.003) << "what the longest row can lose to zero";
}

TEST(WeightCode, EveryCodeInUseIsItsOwn) {
  const WeightCode code(12);
  for (int c = 255; c >= 255 - WeightCode::kOctaves * 12; --c) {
    EXPECT_EQ(code.Encode(code.Decode(static_cast<uint8_t>(c))), c);
  }
}

}  // namespace
}  // namespace heed::lab
