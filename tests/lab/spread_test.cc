#include "lab/runs/measurements.h"

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

TEST(SpreadTest, IsMeanLeastAndGreatest) {
  const Spread spread = SpreadOf({2.25, 5.0, -1.0, 4.5});
  EXPECT_EQ(spread.mean, 2.6875);
  EXPECT_EQ(spread.low, -1.0);
  EXPECT_EQ(spread.high, 5.0);
  const Spread one = SpreadOf({3.0});
  EXPECT_EQ(one.mean, 3.0);
  EXPECT_EQ(one.low, 3.0);
  EXPECT_EQ(one.high, 3.0);
}

TEST(SpreadTest, JsonHoldsAllThree) { EXPECT_EQ(ToJson(Spread{0.1, -2, 3}).dump(), R"({"mean":0.1,"low":-2.0,"high":3.0})"); }

TEST(SeedsOfTest, NamesTheFirstAndTheLast) {
  EXPECT_EQ(SeedsOf(0, 1), "seed 0");
  EXPECT_EQ(SeedsOf(7, 1), "seed 7");
  EXPECT_EQ(SeedsOf(0, 3), "seeds 0 to 2");
  EXPECT_EQ(SeedsOf(18446744073709551613U, 3), "seeds 18446744073709551613 to 18446744073709551615");
}

}  // namespace
}  // namespace heed::lab
