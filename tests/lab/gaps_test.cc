#include "lab/data/ngrams.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lab/data/random.h"

namespace heed::lab {
namespace {

// Tokens 0 1 2 0 1 2 0: behind 0 came 1 twice, before 0 came 2 twice, and nothing else did.
TEST(GapCountsTest, DiscountsFromBothNeighboursDownToUniform) {
  const GapCounts counts(Passages({0, 1, 2, 0, 1, 2, 0}), 4);
  const auto below = [](double seen, double total, double different, double rest) {
    return (seen - (seen > 0 ? 0.5 : 0) + 0.5 * different * rest) / total;
  };
  const double one = below(2, 7, 3, 0.25), never = below(0, 7, 3, 0.25);
  EXPECT_DOUBLE_EQ(counts.Probability(GapCounts::kHidden, 1, GapCounts::kHidden, 0.5), one);
  EXPECT_DOUBLE_EQ(counts.Probability(GapCounts::kHidden, 3, GapCounts::kHidden, 0.5), never);
  const double behind_0 = below(2, 2, 1, one), before_2 = below(2, 2, 1, one);
  EXPECT_DOUBLE_EQ(counts.Probability(0, 1, GapCounts::kHidden, 0.5), behind_0);
  EXPECT_DOUBLE_EQ(counts.Probability(GapCounts::kHidden, 1, 2, 0.5), before_2);
  EXPECT_DOUBLE_EQ(counts.Probability(0, 1, 2, 0.5), below(2, 2, 1, (behind_0 + before_2) / 2));
  EXPECT_DOUBLE_EQ(counts.Probability(3, 1, 3, 0.5), one) << "neighbours that were never seen tell nothing";
  double sum = 0;
  for (int32_t token = 0; token < 4; ++token) sum += counts.Probability(0, token, 2, 0.5);
  EXPECT_NEAR(sum, 1, 1e-12);
}

TEST(GapCountsTest, PassagesHaveNoNeighboursInOthers) {
  Passages text({0, 1, 0, 1});
  text.ends = {2, 4};
  const GapCounts counts(text, 2);
  EXPECT_GT(counts.Probability(0, 1, GapCounts::kHidden, 0.5), 0.8);
  EXPECT_EQ(counts.Probability(1, 0, GapCounts::kHidden, 0.5),
            counts.Probability(GapCounts::kHidden, 0, GapCounts::kHidden, 0.5))
      << "nothing came behind 1";
}

// A cycle of three, in which a token whose neighbours are seen is certain and one between hidden ones is one of three.
TEST(CountGapsTest, OnlyHiddenNeighboursCost) {
  std::vector<int32_t> cycle, noise, other;
  Random random(5);
  for (int32_t i = 0; i < 3000; ++i) cycle.push_back(i % 3), noise.push_back(static_cast<int32_t>(random.Below(3)));
  for (int32_t i = 0; i < 3000; ++i) other.push_back(static_cast<int32_t>(random.Below(3)));
  const CountedText counted = CountGaps(Passages(cycle), 3, {cycle}, {cycle, noise}, 60);
  const double certain = counted.losses.front();
  EXPECT_DOUBLE_EQ(counted.validation, certain) << "of the same block";
  EXPECT_GT(certain, 0.005) << "both neighbours are hidden in one of fifty";
  EXPECT_LT(certain, 0.05);
  EXPECT_NEAR(CountGaps(Passages(noise), 3, {other}, {other}, 60).losses.front(), std::log(3.0), 0.03);
}

}  // namespace
}  // namespace heed::lab
