#include "lab/report/svg.h"

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

TEST(SpreadApartTest, LeavesWhatDoesNotCollide) {
  EXPECT_EQ(SpreadApart({5, 1, 9}, 2, 0, 10), (std::vector<double>{5, 1, 9}));
  EXPECT_TRUE(SpreadApart({}, 2, 0, 10).empty());
  EXPECT_EQ(SpreadApart({-3}, 2, 0, 10), std::vector<double>{0});
}

TEST(SpreadApartTest, MovesNeighboursApartAroundTheirMiddle) {
  EXPECT_EQ(SpreadApart({5, 5}, 2, 0, 10), (std::vector<double>{4, 6}));
  EXPECT_EQ(SpreadApart({5.5, 5}, 2, 0, 10), (std::vector<double>{6.25, 4.25}));
  EXPECT_EQ(SpreadApart({5, 5, 5}, 2, 0, 10), (std::vector<double>{3, 5, 7}));
  EXPECT_EQ(SpreadApart({4, 5, 9}, 2, 0, 10), (std::vector<double>{3.5, 5.5, 9}));
}

TEST(SpreadApartTest, StaysWithinTheEnds) {
  EXPECT_EQ(SpreadApart({0, 0, 0}, 2, 0, 10), (std::vector<double>{0, 2, 4}));
  EXPECT_EQ(SpreadApart({10, 10, 10}, 2, 0, 10), (std::vector<double>{6, 8, 10}));
  EXPECT_EQ(SpreadApart({0, 10, 10}, 5, 0, 10), (std::vector<double>{0, 5, 10}));
}

}  // namespace
}  // namespace heed::lab
