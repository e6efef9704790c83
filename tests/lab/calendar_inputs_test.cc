// What models read of dates.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lab/series/baselines.h"
#include "lab/series/batches.h"

namespace heed::lab {
namespace {

constexpr double kDay = 86400;

SeriesData Dated(int64_t steps, double step, double (*value)(double)) {
  SeriesData data;
  data.name = "dated", data.goal = "forecast", data.each_step = true, data.features = {"y"}, data.target = "y";
  data.has_times = data.has_dates = true, data.time = "at";
  SeriesSequence one{"all", steps, {}, {}, {}};
  for (int64_t i = 0; i < steps; ++i) {
    const double time = step * static_cast<double>(i);
    one.times.push_back(time), one.features.push_back(value(time)), one.targets.push_back(value(time));
  }
  data.sequences.push_back(one);
  return data;
}

SeriesCut Windows(int64_t context, int64_t horizon) {
  SeriesCut cut;
  cut.context = context, cut.horizon = horizon;
  return cut;
}

double Sawtooth(double time) { return std::fmod(time, 5 * kDay); }

TEST(CalendarInputsTest, APeriodCountsWhereItWasSeenAndHoldsTwoSteps) {
  using Names = std::vector<std::string>;
  const auto periods = [](const SeriesData& data) { return SeriesBatches(data, Windows(4, 2)).form().periods; };
  EXPECT_EQ(periods(Dated(1000, kDay, Sawtooth)), (Names{"year", "week"}));
  EXPECT_EQ(periods(Dated(200, 30.5 * kDay, Sawtooth)), (Names{"year"}));
  EXPECT_EQ(periods(Dated(1000, 3600, Sawtooth)), (Names{"week", "day"}));
  EXPECT_EQ(periods(Dated(100, 60, Sawtooth)), Names());
  SeriesData numbers = Dated(1000, kDay, Sawtooth);
  numbers.has_dates = false;
  EXPECT_EQ(periods(numbers), Names()) << "times that are no dates have no calendar";
  SeriesData values = Dated(1000, kDay, Sawtooth);
  values.goal = "regression";
  EXPECT_EQ(periods(values), Names());
}

// Monday's step and the next Monday's have the same terms, and the time since the step before stands behind them.
TEST(CalendarInputsTest, TermsStandBetweenFeaturesAndTheTimeSince) {
  const SeriesData data = Dated(60, kDay, Sawtooth);
  const SeriesBatches batches(data, Windows(9, 1));
  ASSERT_EQ(batches.form().periods, std::vector<std::string>{"week"});
  ASSERT_EQ(batches.form().width(), 1 + 4 + 1);
  const SeriesBatch batch = batches.Make({{0, 3, 9}});
  const auto input = [&](int64_t step, int64_t column) { return batch.features[step * 6 + column]; };
  for (int64_t k = 1; k <= 2; ++k) {
    const double angle = 2 * M_PI * static_cast<double>(k * 3) / 7;
    EXPECT_NEAR(input(0, 2 * k - 1), std::cos(angle), 1e-6);
    EXPECT_NEAR(input(0, 2 * k), std::sin(angle), 1e-6);
    EXPECT_NEAR(input(7, 2 * k), input(0, 2 * k), 1e-6);
    EXPECT_GT(std::abs(input(1, 2 * k) - input(0, 2 * k)), 0.01);
  }
  EXPECT_EQ(input(4, 5), 0.0F);
}

// Of a year's course a window of days shows its slope alone: with the date, where it turns is known as well.
TEST(CalendarInputsTest, ARegressionKnowsWhereTheYearTurns) {
  const auto course = [](double time) { return 10 * std::pow(std::sin(M_PI * time / (365.2425 * kDay)), 8); };
  SeriesData data = Dated(1500, kDay, course);
  const auto loss_of = [](const SeriesData& some) {
    for (const Baseline& baseline : SeriesBaselines(SeriesBatches(some, Windows(3, 40)), 1)) {
      if (baseline.name == "ridge regression") return baseline.loss;
    }
    return std::nan("");
  };
  const double dated = loss_of(data);
  data.has_dates = false;
  EXPECT_LT(dated, 0.5 * loss_of(data));
}

}  // namespace
}  // namespace heed::lab
