// Regressions and neighbours beside what they are by hand.
#include <cmath>
#include <cstdint>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lab/series/examples.h"

namespace heed::lab {
namespace {

at::Tensor AsColumn(const std::vector<double>& values) { return at::tensor(values, at::kDouble).unsqueeze(1); }

Examples Values(const std::vector<double>& x, const std::vector<double>& y) { return {AsColumn(x), AsColumn(y)}; }

Examples Classes(const std::vector<double>& x, const std::vector<int64_t>& y) {
  return {AsColumn(x), at::tensor(y, at::kLong)};
}

double At(const FittedMethod& method, double x, int64_t output = 0) {
  return method.answer(AsColumn({x}))[0][output].item<double>();
}

// Standardised, x is -1 and 1 and y has the mean -1 and the covariance 2 with it: the slope is 2 / (1 + strength).
TEST(RidgeTest, IsTheClosedFormWithTheStrengthThatValidates) {
  const Examples training = Values({10, 14}, {-3, 1});
  const FittedMethod weak = FitLinear(training, training, 0);
  EXPECT_EQ(weak.setting, "strength 1e-06");
  EXPECT_NEAR(At(weak, 14), -1 + 2 / (1 + 1e-6), 1e-12);
  EXPECT_NEAR(At(weak, 16), -1 + 4 / (1 + 1e-6), 1e-12);
  const FittedMethod strong = FitLinear(training, Values({10, 14}, {-1, -1}), 0);
  EXPECT_EQ(strong.setting, "strength 10");
  EXPECT_NEAR(At(strong, 14), -1 + 2.0 / 11, 1e-12);
}

TEST(RidgeTest, CellsThatNeverChangeSayNothing) {
  const at::Tensor y = AsColumn({1, 2, 3});
  const Examples training{at::tensor({5.0, 1.0, 5.0, 2.0, 5.0, 3.0}, at::kDouble).view({3, 2}), y};
  const FittedMethod fitted = FitLinear(training, training, 0);
  EXPECT_NEAR(fitted.answer(at::tensor({900.0, 2.5}, at::kDouble).view({1, 2})).item<double>(), 2.5, 1e-5);
}

// The sum of these values is infinite.
TEST(RidgeTest, EquationsWithoutAnAnswerGiveNone) {
  const Examples training = Values({1.5e308, 1.5e308, 1.4e308}, {1, 2, 3});
  EXPECT_TRUE(std::isnan(At(FitLinear(training, training, 0), 1)));
  EXPECT_TRUE(std::isnan(At(FitLinear(Values({1, 2}, {1, 2}), Values({1}, {1}), 0).again(training), 1)));
}

// Three of four at x = 1 are of class 1, one of four at x = -1: by symmetry the log-odds are w x, and where the penalised loss
// is least, sigmoid(w) - 3/4 + strength w / 2 = 0, as each class has half of w.
TEST(LogisticTest, IsWhereTheGradientVanishes) {
  const Examples training = Classes({1, 1, 1, 1, -1, -1, -1, -1}, {1, 1, 1, 0, 0, 0, 0, 1});
  const auto gradient = [](const FittedMethod& fitted, double strength) {
    const double w = At(fitted, 1, 1) - At(fitted, 1, 0);
    return 1 / (1 + std::exp(-w)) - 0.75 + strength * w / 2;
  };
  const FittedMethod weak = FitLinear(training, training, 2);
  EXPECT_EQ(weak.setting, "strength 0.0001");
  EXPECT_NEAR(gradient(weak, 1e-4), 0, 2e-5) << "the search ends where the gradient is 1e-5";
  EXPECT_NEAR(std::exp(At(weak, 1, 0)) + std::exp(At(weak, 1, 1)), 1, 1e-12);
  // Answers that contradict the training examples ask for the strongest penalty.
  const FittedMethod strong = FitLinear(training, Classes({1, -1}, {0, 1}), 2);
  EXPECT_EQ(strong.setting, "strength 1");
  EXPECT_NEAR(gradient(strong, 1), 0, 2e-5);
}

TEST(NeighboursTest, AnswerWithTheirMean) {
  const Examples training = Values({0, 1, 2, 3}, {0, 10, 20, 30});
  const FittedMethod fitted = FitNeighbours(training, Values({0.4, 1.6}, {5, 15}), 0);
  EXPECT_EQ(fitted.setting, "2 neighbours");
  EXPECT_DOUBLE_EQ(At(fitted, 2.4), 25);
  EXPECT_DOUBLE_EQ(At(fitted, -100), 5);
  EXPECT_EQ(FitNeighbours(training, training, 0).setting, "1 neighbour");
}

// A share of 1/2 each weighs as much as 0.03 neighbours where neighbours are always right, and as one where they err.
TEST(NeighboursTest, AnswerWithTheSharesOfClasses) {
  const Examples training = Classes({0, 1, 5, 6}, {0, 0, 1, 1});
  const FittedMethod right = FitNeighbours(training, Classes({0.4, 5.4}, {0, 1}), 2);
  EXPECT_EQ(right.setting, "2 neighbours and 0.03 for the shares");
  EXPECT_NEAR(At(right, 0.6, 0), std::log(2.015 / 2.03), 1e-12);
  EXPECT_NEAR(At(right, 0.6, 1), std::log(0.015 / 2.03), 1e-12);
  const FittedMethod erring = FitNeighbours(Classes({0, 5}, {0, 1}), Classes({0.4, 5.4, 0.5, 5.1}, {0, 1, 0, 0}), 2);
  EXPECT_EQ(erring.setting, "1 neighbour and 1 for the shares");
  EXPECT_NEAR(At(erring, 0.6, 0), std::log(0.75), 1e-12);
}

TEST(FittedMethodTest, FitsAgainWithTheSameSetting) {
  const auto ridge = FitLinear(Values({10, 14}, {-3, 1}), Values({10, 14}, {-1, -1}), 0).again(Values({0, 2}, {0, 4}));
  EXPECT_EQ(ridge.setting, "strength 10");
  EXPECT_NEAR(At(ridge, 2), 2 + 2.0 / 11, 1e-12) << "the scale is that of the new examples too";
  const Examples two = Classes({1, -1}, {0, 1});
  const auto logistic = FitLinear(Classes({1, -1}, {1, 0}), two, 2).again(two);
  EXPECT_EQ(logistic.setting, "strength 1");
  EXPECT_GT(At(logistic, 1, 0), At(logistic, 1, 1));
  const auto near = FitNeighbours(Values({0, 1, 2, 3}, {0, 10, 20, 30}), Values({0.4, 1.6}, {5, 15}), 0)
                        .again(Values({0, 1, 2, 3, 4}, {0, 10, 20, 30, 100}));
  EXPECT_EQ(near.setting, "2 neighbours");
  EXPECT_DOUBLE_EQ(At(near, 9), 65);
  EXPECT_EQ(near.again(Values({0, 1}, {4, 6})).setting, "2 neighbours");
}

// Examples of one cell that are equally far are told apart by nothing, so all of them count: 2, 3, 3, 3 and 4 lie around 3.
TEST(NeighboursTest, CountAllThatAreAsFarAsTheLast) {
  const at::Tensor X = at::tensor({2.0, 3.0, 3.0, 3.0, 4.0, 9.0}, at::kDouble).view({6, 1});
  const at::Tensor y = at::tensor({10.0, 1.0, 2.0, 6.0, 20.0, 99.0}, at::kDouble).view({6, 1});
  const at::Tensor rows = at::tensor({3.0, 2.5}, at::kDouble).view({2, 1});
  const auto answers = [&](int64_t neighbours) {
    const at::Tensor told = RowMethod({"neighbours", {{"neighbours", neighbours}}, {{"X", X}, {"y", y}}}, 0)(rows);
    return std::vector<double>(told.const_data_ptr<double>(), told.const_data_ptr<double>() + 2);
  };
  EXPECT_EQ(answers(1), (std::vector<double>{3, 19.0 / 4}));
  EXPECT_EQ(answers(2), (std::vector<double>{3, 19.0 / 4}));
  EXPECT_EQ(answers(4), (std::vector<double>{39.0 / 5, 19.0 / 4}));
}

}  // namespace
}  // namespace heed::lab
