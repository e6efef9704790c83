#include "lab/series/baselines.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "lab/data/random.h"
#include "lab/runs/measurements.h"
#include "lab/series/examples.h"
#include "lab/series/forecast.h"
#include "lab/series/kept_model.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

SeriesData Forecast(const std::vector<double>& values) {
  SeriesData data;
  data.name = "values", data.goal = "forecast", data.each_step = true, data.features = {"y"}, data.target = "y";
  data.sequences.push_back({"all", std::ssize(values), values, {}, values});
  return data;
}

std::vector<double> Numbers(int64_t count, double (*value)(int64_t)) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(value(i));
  return values;
}

SeriesCut Windows(int64_t context, int64_t horizon) {
  SeriesCut options;
  options.context = context, options.horizon = horizon;
  return options;
}

double SeasonLoss(const SeriesBatches& batches, const std::vector<SeriesWindow>& windows, int64_t season) {
  return ForecastLoss(batches, windows, LastSeason(batches.data(), season));
}

TEST(SeasonTest, IsTheShortestThatValidatesBest) {
  const SeriesData data = Forecast(Numbers(100, [](int64_t i) { return static_cast<double>(i % 4 * (i % 4)); }));
  const SeriesBatches batches(data, Windows(10, 3));
  EXPECT_EQ(BestSeason(batches), 4) << "8 is as good";
  EXPECT_EQ(SeasonLoss(batches, batches.test_windows(), 4), 0);
}

TEST(SeasonTest, IsNotChosenByTheTestPart) {
  const SeriesData data =
      Forecast(Numbers(200, [](int64_t i) { return static_cast<double>(i < 160 ? i % 4 * (i % 4) : i % 5 * (i % 5)); }));
  const SeriesBatches batches(data, Windows(10, 1));
  EXPECT_EQ(BestSeason(batches), 4);
  EXPECT_EQ(SeasonLoss(batches, batches.validation_windows(), 4), 0);
  EXPECT_GT(SeasonLoss(batches, batches.test_windows(), 4), 1);
}

TEST(SeasonTest, GoesBackAsManySeasonsAsAreKnown) {
  const SeriesData data = Forecast(Numbers(100, [](int64_t i) { return static_cast<double>(i); }));
  const SeriesBatches batches(data, Windows(10, 3));
  EXPECT_NEAR(SeasonLoss(batches, batches.test_windows(), 3), 9, 1e-9);
  EXPECT_NEAR(SeasonLoss(batches, batches.test_windows(), 2), (4 + 4 + 16) / 3.0, 1e-9) << "the third is two seasons ahead";
}

// By hand: the first season is 1, 3 about its mean 2, with a trend of 2 per season, 1 a step; value 4 is what they foretell.
TEST(FitBestTest, ValidationChoosesAndThenAllOfThePastIsFitted) {
  const SeriesData data = Forecast(Numbers(100, [](int64_t i) { return static_cast<double>(i % 4); }));
  const SeriesBatches batches(data, Windows(10, 3));
  std::vector<int64_t> forms, pasts;
  const FittedForecast best = FitBest(batches, std::vector<int64_t>{3, 4, 8}, [&](int64_t season, const auto& past) {
    forms.push_back(season), pasts.push_back(past.front().steps);
    return FittedForecast{std::to_string(season), LastSeason(batches.data(), season)};
  });
  EXPECT_EQ(best.setting, "4") << "8 is as good";
  EXPECT_EQ(forms, (std::vector<int64_t>{3, 4, 8, 4}));
  EXPECT_EQ(pasts, (std::vector<int64_t>{60, 60, 60, 80}));
}

TEST(SmoothingTest, FollowsTheRecursionsByHand) {
  const Smoothing rates{.level = 0.5, .trend = 0.5, .season_rate = 0.5, .damping = 1};
  std::vector<double> season(4), level(4), trend(4);
  const SmoothedParts parts{season, level, trend};
  const std::vector<double> values = {1, 3, 4, 5};
  // Means 2 and 4.5 of the seasons: trend 1.25 a step, seasonal parts 1 - 2 + 0.625 and 3 - 2 - 0.625, level 2.625 at the end.
  const double errors = rates.Smooth(values, 2, parts);
  const double first = 4 - (2.625 + 1.25) - (-0.375);
  EXPECT_DOUBLE_EQ(parts.level[2], 3.875 + 0.5 * first);
  EXPECT_DOUBLE_EQ(parts.trend[2], 1.25 + 0.25 * first);
  EXPECT_DOUBLE_EQ(parts.season[2], -0.375 + 0.25 * first);
  const double second = 5 - (parts.level[2] + parts.trend[2]) - 0.375;
  EXPECT_DOUBLE_EQ(parts.level[3], parts.level[2] + parts.trend[2] + 0.5 * second);
  EXPECT_DOUBLE_EQ(errors, first * first + second * second);
}

// A line with a season of four, of which both parts grow with the level: a line and a season of its logarithms.
TEST(SmoothingTest, FindsSeasonTrendAndLogarithms) {
  const SeriesData data = Forecast(
      Numbers(160, [](int64_t i) { return std::exp(0.02 * static_cast<double>(i) + 0.3 * static_cast<double>(i % 4)); }));
  const SeriesBatches batches(data, Windows(10, 6));
  const FittedForecast fitted = FitSmoothing(batches);
  EXPECT_EQ(fitted.setting, "season of 4 steps, on logarithms");
  const double variance = ForecastLoss(batches, batches.test_windows(), LastSeason(batches.data(), 2));
  EXPECT_LT(ForecastLoss(batches, batches.test_windows(), fitted.foretell), 1e-4 * variance);
}

TEST(SmoothingTest, ForetellsNothingFromLaterValues) {
  const auto wave = [](int64_t i) { return std::sin(static_cast<double>(i)) + static_cast<double>(i % 3); };
  std::vector<double> values = Numbers(100, wave), other = values;
  other[95] += 7;  // the last window ends before it
  const SeriesData data = Forecast(values), changed = Forecast(other);
  const SeriesBatches batches(data, Windows(8, 4)), changed_batches(changed, Windows(8, 4));
  const SeriesWindow window = batches.test_windows()[5];
  ASSERT_LT(window.end(), 95);
  std::vector<double> seen(4), expected(4);
  FitSmoothing(batches).foretell(window, expected);
  FitSmoothing(changed_batches).foretell(window, seen);
  EXPECT_EQ(seen, expected);
}

// Two years of days: a warm summer, cold Sundays, and a disturbance that fades by half each day.
TEST(CalendarTest, KnowsTheYearAndTheWeekAndWhatIsLeft) {
  SeriesData data = Forecast(std::vector<double>(1000, 0.0));
  data.has_times = data.has_dates = true;
  SeriesSequence& days = data.sequences.front();
  Random random(3);
  double beside = 0;
  for (int64_t i = 0; i < days.steps; ++i) {
    const double year = 2 * M_PI * static_cast<double>(i) / 365.2425;
    beside = 0.5 * beside + random.Uniform() - 0.5;
    days.targets[i] = days.features[i] = 20 + 10 * std::cos(year) - (i % 7 == 0 ? 3.0 : 0.0) + beside;
    days.times.push_back(86400.0 * static_cast<double>(i));
  }
  const SeriesBatches batches(data, Windows(8, 3));
  const FittedForecast fitted = FitCalendar(batches);
  EXPECT_EQ(fitted.setting.substr(0, 13), "year and week");
  // The disturbance three days ahead has a variance of 1/12 (1 + 1/4 + 1/16), one day ahead 1/12.
  const double expected = (1 + 1.25 + 1.3125) / 36;
  EXPECT_NEAR(ForecastLoss(batches, batches.test_windows(), fitted.foretell), expected, 0.3 * expected);
}

// A value behind a window's end, whichever, changes nothing; one of the sequences has no past at all.
TEST(CalendarTest, ForetellsNothingFromLaterValues) {
  const auto days = [](double later) {
    SeriesData data =
        Forecast(Numbers(1000, [](int64_t i) { return std::sin(static_cast<double>(i)) + static_cast<double>(i % 7); }));
    data.has_times = data.has_dates = true;
    data.sequences.push_back(data.sequences.front());
    data.sequences[0].parts = {600, 800}, data.sequences[1].parts = {0, 0};
    for (SeriesSequence& sequence : data.sequences) {
      for (int64_t i = 0; i < sequence.steps; ++i) sequence.times.push_back(86400.0 * static_cast<double>(i));
      for (int64_t i = 950; i < sequence.steps; ++i) sequence.targets[i] = sequence.features[i] = later;
    }
    return data;
  };
  const SeriesData data = days(5), changed = days(-70);
  const SeriesBatches batches(data, Windows(8, 4)), changed_batches(changed, Windows(8, 4));
  const FittedForecast fitted = FitCalendar(batches), other = FitCalendar(changed_batches);
  for (const int64_t sequence : {0, 1}) {
    const SeriesWindow window{sequence, 941, 8};
    std::vector<double> expected(4), seen(4);
    fitted.foretell(window, expected), other.foretell(window, seen);
    EXPECT_EQ(seen, expected) << sequence;
  }
}

// As what is known grows from 504 steps to 1000 the curve is fitted anew after every 62: to 690 steps, to 752.
TEST(CalendarTest, IsFittedAnewToWhatHasBecomeKnown) {
  const auto foretold = [](double changed, const std::vector<int64_t>& ends) {
    SeriesData data = Forecast(Numbers(1000, [](int64_t i) { return std::sin(static_cast<double>(i)); }));
    data.has_times = data.has_dates = true;
    for (int64_t i = 0; i < 1000; ++i) data.sequences.front().times.push_back(86400.0 * static_cast<double>(i));
    for (int64_t i = 690; i < 749; ++i) data.sequences.front().targets[i] += changed;
    const Forecaster foretell = CalendarForecaster(data, 1, 4, {{"week"}, 2, 86400, /*line=*/true, false}, {{0, 0, 504}});
    std::vector<double> values(4);
    for (const int64_t end : ends) foretell({0, end - 8, 8}, values);
    return values;
  };
  EXPECT_EQ(foretold(9, {751}), foretold(0, {751})) << "which the fit to 690 steps foretells";
  EXPECT_GT(foretold(9, {752})[0], foretold(0, {752})[0] + 0.5);
  EXPECT_EQ(foretold(9, {752, 990, 752}), foretold(9, {752})) << "in any order";
}

// Eleven dates tell nothing of a year: what is foretold from them stays near the values.
TEST(CalendarTest, ShortSequencesOfAPanelHaveFlatCurves) {
  SeriesData data = Forecast(Numbers(1000, [](int64_t i) { return static_cast<double>(i % 7); }));
  data.has_times = data.has_dates = true;
  data.sequences.push_back({"short", 14, {}, {}, {}});
  Random random(4);
  for (int64_t i = 0; i < 14; ++i) data.sequences[1].targets.push_back(random.Uniform());
  data.sequences[1].features = data.sequences[1].targets;
  for (SeriesSequence& sequence : data.sequences) {
    for (int64_t i = 0; i < sequence.steps; ++i) sequence.times.push_back(86400.0 * static_cast<double>(i));
  }
  const SeriesBatches batches(data, Windows(4, 3));
  const FittedForecast fitted = FitCalendar(batches);
  std::vector<double> values(3);
  fitted.foretell({1, 7, 4}, values);
  for (const double value : values) EXPECT_NEAR(value, 0.5, 1);
}

TEST(CalendarTest, SaysNothingOfAFewHours) {
  SeriesData data = Forecast(Numbers(100, [](int64_t i) { return static_cast<double>(i); }));
  data.has_times = data.has_dates = true;
  for (int64_t i = 0; i < 100; ++i) data.sequences.front().times.push_back(60.0 * static_cast<double>(i));
  EXPECT_EQ(FitCalendar(SeriesBatches(data, Windows(8, 3))).foretell, nullptr);
}

TEST(LevelsTest, AreLevelsLessTheirMeanSoFar) {
  const SeriesData data = Forecast(Numbers(60, [](int64_t i) { return static_cast<double>(i * i); }));
  const SeriesBatches batches(data, Windows(3, 1));
  const auto levels = [scales = LevelScales(batches)](const at::Tensor& X) { return WithLevels(X, scales); };
  // Levels 0, 1, 3 lie 0, 1/2 and 5/3 above their means so far.
  const at::Tensor X = at::tensor({9.0F, 1.0F, 2.0F}).view({1, 3, 1}), seen = levels(X);
  EXPECT_EQ(seen.sizes(), (at::IntArrayRef{1, 3, 2}));
  EXPECT_TRUE(seen.select(2, 0).equal(X.select(2, 0)));
  const auto level = [](const at::Tensor& some, int64_t step) { return some[0][step][1].item<double>(); };
  EXPECT_EQ(level(seen, 0), 0);
  EXPECT_GT(level(seen, 1), 0);
  EXPECT_NEAR(level(seen, 2) / level(seen, 1), 10.0 / 3, 1e-5);
  const at::Tensor later = levels(at::tensor({9.0F, 1.0F, 700.0F}).view({1, 3, 1}));
  EXPECT_EQ(level(later, 1), level(seen, 1)) << "later steps are not seen";
  double squares = 0;
  const std::vector<SeriesWindow> windows = batches.TrainingWindows(1000);
  const at::Tensor all = levels(at::tensor(batches.Make(windows).features).view({std::ssize(windows), 3, 1}));
  squares = all.select(2, 1).square().mean().item<double>();
  EXPECT_NEAR(squares, 1, 1e-5) << "the training part's own are 1 in size";
}

// Sequences s of 2 and 3 steps with the feature 10 s + step.
SeriesData Steps(const std::string& goal, bool each_step, int64_t count = 10) {
  SeriesData data;
  data.name = "steps", data.goal = goal, data.features = {"x"}, data.target = "y", data.each_step = each_step;
  if (goal == "classification") data.classes = {"a", "b"};
  for (int64_t s = 0; s < count; ++s) {
    SeriesSequence one{std::to_string(s), 2 + s % 2, {}, {}, {}};
    for (int64_t i = 0; i < one.steps; ++i) one.features.push_back(static_cast<double>(10 * s + i));
    for (int64_t i = 0; i < (each_step ? one.steps : 1); ++i) one.targets.push_back(static_cast<double>((s + i) % 2));
    data.sequences.push_back(one);
  }
  return data;
}

TEST(SeriesExamplesTest, ASequenceIsARowWithAMark) {
  const SeriesData data = Steps("regression", false);
  const SeriesBatches batches(data, {});
  const SeriesExamples examples(batches, RowOf::kSteps);
  EXPECT_EQ(examples.cells(), 6) << "three steps, and whether each is there";
  const Examples all = examples.Training(100);
  const SeriesBatch batch = batches.Make(batches.TrainingWindows(100));
  ASSERT_EQ(all.rows(), batch.rows);
  for (int64_t row = 0; row < all.rows(); ++row) {
    for (int64_t step = 0; step < 3; ++step) {
      const bool there = step < batch.lengths[row];
      EXPECT_EQ(all.X[row][2 * step].item<double>(), there ? batch.features[row * batch.steps + step] : 0);
      EXPECT_EQ(all.X[row][2 * step + 1].item<double>(), there ? 1 : 0);
    }
    EXPECT_EQ(all.y[row][0].item<double>(), batch.values[row]);
  }
  EXPECT_EQ(examples.Limits(100), "");
  EXPECT_EQ(examples.Training(4).rows(), 4);
  EXPECT_EQ(examples.Limits(4), "fitted on 4 of 6 examples");
}

TEST(SeriesExamplesTest, ASummaryIsWhatItsNumbersAre) {
  SeriesData data = Steps("regression", false);
  const SeriesBatches batches(data, {});
  const SeriesExamples examples(batches, RowOf::kSummary);
  EXPECT_EQ(examples.cells(), 7);
  EXPECT_EQ(examples.Limits(100), "");
  const Examples all = examples.Training(100);
  const SeriesBatch batch = batches.Make(batches.TrainingWindows(100));
  for (int64_t row = 0; row < all.rows(); ++row) {
    // Rising by equal steps.
    const int64_t steps = batch.lengths[row];
    const double first = batch.features[row * batch.steps], last = batch.features[row * batch.steps + steps - 1];
    const double step = (last - first) / static_cast<double>(steps - 1);
    const double expected[] = {
        (first + last) / 2,        step * (steps == 2 ? 0.5 : std::sqrt(2.0 / 3)), first, last, step, step,
        static_cast<double>(steps)};
    for (int64_t cell = 0; cell < 7; ++cell) EXPECT_NEAR(all.X[row][cell].item<double>(), expected[cell], 1e-6) << cell;
  }
}

TEST(SeriesExamplesTest, SummariesStandBehindTheSteps) {
  const SeriesData data = Steps("regression", false);
  const SeriesBatches batches(data, {});
  const auto rows = [&](RowOf row_of) { return SeriesExamples(batches, row_of).Training(100).X; };
  EXPECT_TRUE(rows(RowOf::kBoth).equal(at::cat({rows(RowOf::kSteps), rows(RowOf::kSummary)}, 1)));
}

TEST(SeriesExamplesTest, AStepIsARowAmidItsNeighbours) {
  const SeriesData data = Steps("classification", true);
  const SeriesBatches batches(data, {});
  const SeriesExamples examples(batches, RowOf::kSteps);
  EXPECT_EQ(examples.cells(), 17 * 2);
  const Examples all = examples.Training(1000);
  const SeriesBatch batch = batches.Make(batches.TrainingWindows(1000));
  ASSERT_EQ(all.rows(), std::ssize(batch.scored));
  for (int64_t i = 0; i < all.rows(); ++i) {
    EXPECT_EQ(all.X[i][16].item<double>(), batch.features[batch.scored[i]]) << "the step itself is in the middle";
    EXPECT_EQ(all.X[i].slice(0, 1, {}, 2).sum().item<double>(), batch.lengths[batch.scored[i] / batch.steps]);
    EXPECT_EQ(all.y[i].item<int64_t>(), batch.classes[i]);
  }
}

TEST(SeriesExamplesTest, AForecastIsTheWindowLessItsLastValue) {
  const SeriesData data = Forecast(Numbers(60, [](int64_t i) { return static_cast<double>(i * i); }));
  const SeriesBatches batches(data, Windows(4, 2));
  double squares = 0;  // of changes in the training part
  for (int64_t step = 1; step < 36; ++step) squares += std::pow(static_cast<double>(2 * step - 1), 2);
  const double typical = std::sqrt(squares / 35);
  SeriesExamples(batches, RowOf::kSteps).ForEach(batches.test_windows(), [&](const Examples& examples) {
    ASSERT_EQ(examples.cells(), 4);
    const int64_t last = batches.test_windows().front().end() - 1;
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t step = last - 3 + i;
      EXPECT_NEAR(examples.X[0][i].item<double>(), static_cast<double>(step * step - last * last) / typical, 1e-5);
    }
  });
}

TEST(SeriesExamplesTest, LongRowsAreAveragedAndWideOnesThinned) {
  SeriesData data = Steps("regression", false);
  for (SeriesSequence& sequence : data.sequences) {
    sequence.steps = 2048;
    sequence.features = Numbers(2048, [](int64_t i) { return static_cast<double>(i); });
  }
  const SeriesBatches batches(data, [] {
    SeriesCut options;
    options.longest = 4096;
    return options;
  }());
  const SeriesExamples examples(batches, RowOf::kSteps);
  EXPECT_EQ(examples.cells(), 1024) << "no mark where all are as long";
  EXPECT_EQ(examples.Limits(100), "2048 steps averaged to 1024");
  const SeriesBatch batch = batches.Make(batches.TrainingWindows(1));
  EXPECT_NEAR(examples.Training(1).X[0][1].item<double>(), (batch.features[2] + batch.features[3]) / 2, 1e-6);
  SeriesData wide = Steps("regression", false);
  wide.features = std::vector<std::string>(3000, "x");
  for (SeriesSequence& sequence : wide.sequences) {
    sequence.steps = 2;
    sequence.features = Numbers(6000, [](int64_t i) { return static_cast<double>(i % 7); });
  }
  const SeriesBatches wide_batches(wide, {});
  EXPECT_EQ(SeriesExamples(wide_batches, RowOf::kSteps).cells(), 1024);
  EXPECT_EQ(SeriesExamples(wide_batches, RowOf::kSteps).Limits(100), "2 steps averaged to 1 and 1024 of 3000 columns");
}

std::vector<std::string> NamesOf(const std::vector<Baseline>& baselines) {
  std::vector<std::string> names;
  names.reserve(baselines.size());
  for (const Baseline& baseline : baselines) names.push_back(baseline.name);
  return names;
}

TEST(SeriesBaselinesTest, EveryGoalHasItsOwn) {
  using Names = std::vector<std::string>;
  for (const bool each_step : {false, true}) {
    const SeriesData classes = Steps("classification", each_step), numbers = Steps("regression", each_step);
    Names of_classes{"commonest class", "logistic regression", "nearest neighbours"};
    Names of_numbers{"mean", "ridge regression", "nearest neighbours"};
    if (!each_step) of_classes.insert(of_classes.begin() + 2, "logistic regression on summaries");
    if (!each_step) of_numbers.insert(of_numbers.begin() + 2, "ridge regression on summaries");
    EXPECT_EQ(NamesOf(SeriesBaselines(SeriesBatches(classes, {}), 1)), of_classes);
    EXPECT_EQ(NamesOf(SeriesBaselines(SeriesBatches(numbers, {}), 1)), of_numbers);
  }
  const SeriesData line = Forecast(Numbers(100, [](int64_t i) { return static_cast<double>(i * i % 11); }));
  const std::vector<Baseline> one = SeriesBaselines(SeriesBatches(line, Windows(8, 2)), 1);
  const std::vector<Baseline> two = SeriesBaselines(SeriesBatches(line, Windows(8, 2)), 2);
  EXPECT_EQ(NamesOf(one), (Names{"last value", "last season", "Holt-Winters", "ridge regression", "nearest neighbours"}));
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].loss, two[i].loss) << "whatever the threads";
}

// A single recording is cut in time: of its first 60 steps every fifth is b, of the last 40, all of the test part, every one.
TEST(SeriesBaselinesTest, TheCommonestClassIsThatOfTheTrainingPart) {
  const auto act = [](int64_t step) { return step >= 60 || step % 5 == 0 ? 1.0 : 0.0; };
  SeriesData data;
  data.name = "recording", data.goal = "classification", data.features = {"x"}, data.target = "act";
  data.classes = {"a", "b"}, data.each_step = true;
  data.sequences.push_back({"all", 100, std::vector<double>(100), {}, {}});
  for (int64_t step = 0; step < 100; ++step) data.sequences[0].targets.push_back(act(step));
  const SeriesBatches batches(data, {});
  double a = 1, b = 1;
  for (const SeriesWindow& part : batches.training_steps()) {
    for (int64_t step = part.first; step < part.first + part.steps; ++step) (act(step) == 0 ? a : b) += 1;
  }
  ASSERT_LT(b, a) << "a part of the steps is left for the tests";
  const Baseline commonest = SeriesBaselines(batches, 1).front();
  EXPECT_EQ(commonest.name, "commonest class");
  EXPECT_NEAR(commonest.loss, -std::log(b / (a + b)), 1e-9);
  EXPECT_EQ(commonest.accuracy, 0);
}

// y = 3 x_0 - x_1 + 100, in its own units; noise of deviation 1/2 is what a regression cannot foretell.
TEST(SeriesBaselinesTest, ARegressionFindsALineInTheTargetsOwnUnits) {
  SeriesData data;
  data.name = "line", data.goal = "regression", data.features = {"x"}, data.target = "y";
  Random random(7);
  for (int64_t s = 0; s < 2000; ++s) {
    const double a = random.Uniform() * 10, b = random.Uniform() * 10, noise = (random.Uniform() - 0.5) * std::sqrt(3.0);
    data.sequences.push_back({std::to_string(s), 2, {a, b}, {}, {3 * a - b + 100 + noise}});
  }
  const std::vector<Baseline> baselines = SeriesBaselines(SeriesBatches(data, {}), 1);
  EXPECT_NEAR(baselines[0].loss, 10 * 100 / 12.0 + 0.25, 10) << "the variance of y; 400 of them";
  EXPECT_NEAR(baselines[1].loss, 0.25, 0.03);
  EXPECT_GT(baselines[3].loss, baselines[1].loss);
  ASSERT_EQ(baselines[1].blocks.size(), 32u);
  EXPECT_NEAR(MeanOf(baselines[1].blocks), baselines[1].loss, 0.02) << "blocks of two or three";
}

// Twenty columns say nothing: by the training part alone the weakest penalty and one neighbour would be best.
TEST(SeriesBaselinesTest, SettingsAreChosenByOtherExamplesThanTheyAreFittedTo) {
  SeriesData data;
  data.name = "noise", data.goal = "regression", data.features = std::vector<std::string>(20, "x");
  Random random(9);
  for (int64_t s = 0; s < 100; ++s) {
    SeriesSequence one{std::to_string(s), 1, {}, {}, {random.Uniform()}};
    for (int64_t f = 0; f < 20; ++f) one.features.push_back(random.Uniform());
    data.sequences.push_back(one);
  }
  const std::vector<Baseline> baselines = SeriesBaselines(SeriesBatches(data, {}), 1);
  EXPECT_NE(baselines[1].setting, "strength 1e-06");
  EXPECT_NE(baselines[3].setting, "1 neighbour");
}

// Three classes in a plane whose borders are lines.
TEST(SeriesBaselinesTest, ALogisticRegressionTellsClassesApartByLines) {
  SeriesData data;
  data.name = "plane", data.goal = "classification", data.features = {"a", "b"}, data.target = "kind";
  data.classes = {"left", "right", "above"};
  Random random(8);
  for (int64_t s = 0; s < 900; ++s) {
    const double a = random.Uniform() - 0.5, b = random.Uniform() - 0.5;
    data.sequences.push_back({std::to_string(s), 1, {a, b}, {}, {b > 0.2 ? 2.0 : a > 0 ? 1.0 : 0.0}});
  }
  const std::vector<Baseline> baselines = SeriesBaselines(SeriesBatches(data, {}), 1);
  EXPECT_GE(baselines[1].accuracy, 0.95);
  EXPECT_LT(baselines[1].loss, 0.25);
  EXPECT_NEAR(baselines[0].accuracy, 0.35, 0.1);
  EXPECT_GE(baselines[3].accuracy, 0.9);
}

}  // namespace
}  // namespace heed::lab
