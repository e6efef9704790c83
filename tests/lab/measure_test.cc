#include "lab/runs/measurements.h"

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

TEST(MeasureTest, TellsASpreadWhereTheSeedsShowADifference) {
  const Measure loss = {.name = "loss", .label = "Loss", .phrase = "a loss of {} nats"};
  EXPECT_EQ(loss.Text({1.9344, 1.9251, 1.9446}), "1.934 (1.925 to 1.945)");
  EXPECT_EQ(loss.Cell({1.9344, 1.9251, 1.9446}), "1.934 (1.925–1.945)");
  EXPECT_EQ(loss.Text({1.5, 1.5, 1.5}), "1.500");
  EXPECT_EQ(loss.Cell({1.5, 1.49999, 1.50001}), "1.500") << "as written, all are the same";
  EXPECT_EQ(loss.Phrase({1.5, 1.25, 1.75}), "a loss of 1.500 (1.250 to 1.750) nats");
}

TEST(MeasureTest, WritesNumbersOfAnySizeByTheDigitsThatCount) {
  const Measure error = {.name = "error", .label = "Error", .digits = 4, .significant = true};
  EXPECT_EQ(error.Text(0.0000123456), "1.235e-05");
  EXPECT_EQ(error.Text(123456.0), "1.235e+05");
  EXPECT_EQ(error.Text({1.25, 1, 1.5}), "1.25 (1 to 1.5)");
}

TEST(MeasureTest, CountsInItsUnit) {
  const Measure speed = {.name = "speed", .label = "Thousands", .digits = 1, .more_is_better = true, .unit = 1000};
  EXPECT_EQ(speed.Text(12345.0), "12.3");
}

TEST(MeasureTest, KnowsWhatIsBetter) {
  const Measure loss = {.name = "loss", .label = "Loss"};
  const Measure accuracy = {.name = "accuracy", .label = "Accuracy", .more_is_better = true};
  EXPECT_TRUE(loss.Better(1, 2) && accuracy.Better(2, 1));
  EXPECT_FALSE(loss.Better(1, 1) || accuracy.Better(1, 1));
  EXPECT_EQ(loss.Worst({2, 1, 3}), 3);
  EXPECT_EQ(accuracy.Worst({2, 1, 3}), 1);
  EXPECT_EQ(loss.Best({2, 1, 3}), 1);
  EXPECT_EQ(accuracy.Best({2, 1, 3}), 3);
}

}  // namespace
}  // namespace heed::lab
