// Kept baselines that look at a sequence's whole past, and those of its last steps, from a folder without LibTorch.
// tests/lab/without_torch_test.cc holds them to what the laboratory says.
#include "heed/past_forecasts.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "damaged_folders.h"
#include "heed/error.h"
#include "heed/series_cells.h"
#include "heed/series_model.h"
#include "stored_tensors.h"
#include "tests/error_text.h"
#include "tests/folder_fixture.h"

namespace heed {
namespace {

using Json = nlohmann::json;

constexpr int64_t kAhead = 3, kWindow = 2;
constexpr double kDay = 86400;

class PastForecastsTest : public ScratchFolderTest {
 protected:
  PastForecastsTest() {
    config_ = {{"format", 1},
               {"kind", "table"},
               {"name", "the past"},
               {"form",
                {{"goal", "forecast"},
                 {"target", "y"},
                 {"sequence", "id"},
                 {"time", "day"},
                 {"features", {"y"}},
                 {"classes", Json::array()},
                 {"each_step", true},
                 {"has_times", true},
                 {"has_dates", true},
                 {"context", kWindow},
                 {"horizon", kAhead},
                 {"longest", 1024},
                 {"mean", {0.0}},
                 {"deviation", {1.0}},
                 {"change", {1.0}},
                 {"target_mean", 0.0},
                 {"target_deviation", 1.0},
                 {"target_scale", 2.0},
                 {"typical_step", kDay}}},
               {"low", {-1, -2, -3}},
               {"high", {1, 2, 3}}};
  }

  void Write(const std::string& kind, const Json& settings) {
    config_["method"] = {{"kind", kind}, {"settings", settings}};
    std::ofstream(At("config.json")) << config_;
    WriteTensors(At("model.safetensors"), arrays_);
  }
  SeriesModel Opened(const std::string& kind, const Json& settings) {
    Write(kind, settings);
    return SeriesModel(folder().string());
  }
  std::string RefusalOfPeriods(const Json& periods) {
    config_["form"]["periods"] = periods;
    return Refusal("simple", Json::object());
  }
  std::string Refusal(const std::string& kind, const Json& settings) {
    return WhatOf<FileError>([&] { Opened(kind, settings); });
  }

  // Rows of values at days end to end, all of as many steps.
  std::vector<double> Answers(const SeriesModel& model, const std::vector<double>& values, int64_t rows = 1) {
    const int64_t steps = std::ssize(values) / rows;
    std::vector<double> days;
    for (std::size_t i = 0; i < values.size(); ++i) days.push_back(kDay * static_cast<double>(static_cast<int64_t>(i) % steps));
    SeriesInput input;
    input.features = View<const double, 3>::Contiguous(values.data(), {rows, steps, 1});
    if (model.form().has_times) input.times = View<const double, 2>::Contiguous(days.data(), {rows, steps});
    std::vector<double> answers(static_cast<std::size_t>(rows * model.form().outputs()), -7.0), low = answers;
    const auto view = [&](std::vector<double>& some) {
      return View<double, 3>::Contiguous(some.data(), {rows, 1, model.form().outputs()});
    };
    model.Predict(input, {view(answers), view(low), {}}, workspace_, serial_);
    for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_DOUBLE_EQ(low[i], answers[i] - 1 - static_cast<double>(i % kAhead));
    return answers;
  }

  static Json Holt(int64_t season, bool logs) {
    return {{"season", season}, {"logs", logs}, {"level", 0.5}, {"trend", 0.5}, {"season_rate", 0.5}, {"damping", 0.5}};
  }
  static Json Week(int64_t harmonics, bool logs) {
    return {{"periods", {"week"}}, {"harmonics", harmonics}, {"step", kDay}, {"line", false}, {"logs", logs}};
  }

  void RefusesDamage(int64_t folders);

  Json config_;
  std::map<std::string, Stored> arrays_;
  ModelWorkspace workspace_;
  SerialExecutor serial_;
};

TEST_F(PastForecastsTest, TheFileOfWeightsIsThereWhereAMethodHasNone) {
  Write("season", {{"season", 2}});
  std::ofstream(At("model.safetensors")) << "no weights";
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { const SeriesModel model(folder().string()); }), "model.safetensors"));
}

TEST_F(PastForecastsTest, ASeasonComesAgain) {
  const SeriesModel model = Opened("season", {{"season", 2}});
  EXPECT_EQ(Answers(model, {1, 5, 2, 7}), (std::vector<double>{2, 7, 2}));
  EXPECT_EQ(Answers(model, {1, 5, 2, 7, 0, 3, 4, 6}, 2), (std::vector<double>{2, 7, 2, 4, 6, 4}));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Answers(model, {1}); }), "row 0 has 1 steps; the past forecasts from 2"));
}

// By hand: means 2 and 4.5 of the seasons, in units of 2 half as much; the trend loses half of itself each step.
TEST_F(PastForecastsTest, SmoothingFollowsTheRecursions) {
  const SeriesModel model = Opened("smoothing", Holt(2, false));
  const double trend = 1.25 / 2, level = (2 + 1.25 / 2) / 2, seasons[] = {-0.375 / 2, 0.375 / 2};
  const double first = 2 - (level + 0.5 * trend) - seasons[0], level2 = level + 0.5 * trend + 0.5 * first;
  const double trend2 = 0.5 * trend + 0.25 * first, season2 = seasons[0] + 0.25 * first;
  const double second = 2.5 - (level2 + 0.5 * trend2) - seasons[1], level3 = level2 + 0.5 * trend2 + 0.5 * second;
  const double trend3 = 0.5 * trend2 + 0.25 * second, season3 = seasons[1] + 0.25 * second;
  const std::vector<double> answers = Answers(model, {1, 3, 4, 5});
  EXPECT_NEAR(answers[0], 2 * (level3 + 0.5 * trend3 + season2), 1e-12);
  EXPECT_NEAR(answers[1], 2 * (level3 + 0.75 * trend3 + season3), 1e-12);
  EXPECT_NEAR(answers[2], 2 * (level3 + 0.875 * trend3 + season2), 1e-12);
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] {
                      Answers(model, {1, 3, 4});
                    }),
                    "the longest row has 3 steps; Holt-Winters with a season of 2 needs 4"));
  const SeriesModel logs = Opened("smoothing", Holt(1, true));
  for (const double value : Answers(logs, {7, 7, 7})) EXPECT_NEAR(value, 7, 1e-12);
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Answers(logs, {7, 0, 7}); }), "features: row 0, step 1: 0 has no logarithm"));
}

TEST_F(PastForecastsTest, ACalendarKnowsTheDayOfTheWeek) {
  std::vector<double> values;
  for (int64_t i = 0; i < 70; ++i) values.push_back(5 + std::cos(2 * M_PI * static_cast<double>(i) / 7));
  for (const bool logs : {false, true}) {
    const std::vector<double> answers = Answers(Opened("calendar", Week(3, logs)), values);
    for (int64_t h = 0; h < kAhead; ++h)
      EXPECT_NEAR(answers[h], 5 + std::cos(2 * M_PI * static_cast<double>(70 + h) / 7), 0.03) << h;
  }
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] {
                      Answers(Opened("calendar", Week(3, false)), {1, 2, 3});
                    }),
                    "times: the longest row spans 172800.000000 seconds; its calendar needs 1.5 times a week"));
}

// A target beside the features stands at every step.
TEST_F(PastForecastsTest, ATargetOfItsOwn) {
  config_["form"]["features"] = {"rain"};
  const SeriesModel model = Opened("season", {{"season", 2}});
  const std::vector<double> rain = {0, 0, 0}, days = {0, kDay, 2 * kDay}, sold = {4, 8, 6};
  SeriesInput input;
  input.features = View<const double, 3>::Contiguous(rain.data(), {1, 3, 1});
  input.times = View<const double, 2>::Contiguous(days.data(), {1, 3});
  std::vector<double> answers(kAhead);
  const auto predict = [&] { model.Predict(input, {View<double, 3>::Contiguous(answers.data(), {1, 1, kAhead})}); };
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>(predict), "target: expected \"y\" at each step, as it is none of the features"));
  input.target = View<const double, 2>::Contiguous(sold.data(), {1, 2});
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>(predict), "target: expected [1, 3], got [1, 2]"));
  input.target = View<const double, 2>::Contiguous(sold.data(), {1, 3});
  predict();
  EXPECT_EQ(answers, (std::vector<double>{8, 6, 8}));
}

TEST_F(PastForecastsTest, SettingsThatAreNoMethodsAreRefused) {
  EXPECT_TRUE(Holds(Refusal("season", {{"season", 0}}), "config.json: 'season' does not fit this kind of method"));
  EXPECT_TRUE(Holds(Refusal("season", Json::object()), "'season' is missing"));
  Json rates = Holt(2, false);
  rates["damping"] = 1.5;
  EXPECT_TRUE(Holds(Refusal("smoothing", rates), "'damping' does not fit"));
  EXPECT_TRUE(Holds(Refusal("calendar", Week(65, false)), "'harmonics' does not fit"));
  Json moon = Week(2, false);
  moon["periods"] = {"moon"};
  EXPECT_TRUE(Holds(Refusal("calendar", moon), "'periods' does not fit"));
  EXPECT_TRUE(Holds(Refusal("oracle", Json::object()), "expected simple, linear, neighbours, season, smoothing or calendar"));
  config_["form"]["has_dates"] = false;
  EXPECT_TRUE(Holds(Refusal("calendar", Week(2, false)), "'calendar' needs dates"));
  config_["form"]["goal"] = "regression", config_["low"] = {-1}, config_["high"] = {1};
  EXPECT_TRUE(Holds(Refusal("season", {{"season", 2}}), "'season' only forecasts"));
}

// Every kind of method in turn, those of the last steps too.
void PastForecastsTest::RefusesDamage(int64_t folders) {
  std::mt19937 generator(12);
  std::vector<double> values;
  for (int64_t i = 0; i < 21; ++i) values.push_back(2 + std::sin(static_cast<double>(i)));
  const int64_t cells = SeriesCells({true, true, 2, 1, kWindow}, RowOf::kSteps, false).cells();
  const auto numbers = [&](const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    return Stored{"F64", shape, Bytes(std::vector<double>(static_cast<std::size_t>(count), 0.25))};
  };
  arrays_ = {{"mean", numbers({cells})}, {"factor", numbers({cells})}, {"W", numbers({cells, kAhead})},
             {"b", numbers({kAhead})},   {"X", numbers({5, cells})},   {"y", numbers({5, kAhead})}};
  const Json rows = {{"summaries", false}, {"lengths_differ", false}, {"neighbours", 3}};
  const std::vector<std::pair<std::string, Json>> methods = {{"season", {{"season", 3}}},
                                                             {"smoothing", Holt(7, true)},
                                                             {"calendar", Week(2, true)},
                                                             {"simple", Json::object()},
                                                             {"linear", rows},
                                                             {"neighbours", rows}};
  for (const auto& [kind, settings] : methods) {
    Answers(Opened(kind, settings), values);
    const int64_t some = folders / std::ssize(methods);
    const int64_t refused = RefusedOfDamaged(folder().string(), some, generator, [&] {
      const SeriesModel model(folder().string());
      // A damaged name changes what is asked for; any answer will do.
      std::vector<double> days;
      for (int64_t i = 0; i < 21; ++i) days.push_back(kDay * static_cast<double>(i));
      SeriesInput input;
      input.features = View<const double, 3>::Contiguous(values.data(), {1, 21, 1});
      input.times = View<const double, 2>::Contiguous(days.data(), {1, 21});
      std::vector<double> answers(static_cast<std::size_t>(std::min<int64_t>(model.form().outputs(), 1 << 20)));
      model.Predict(input, {View<double, 3>::Contiguous(answers.data(), {1, 1, std::ssize(answers)})}, workspace_, serial_);
    });
    EXPECT_GT(refused, some / 5) << kind;
  }
}

TEST_F(PastForecastsTest, RowsHoldSomethingAndSharesWeighSomething) {
  const int64_t cells = SeriesCells({true, true, 2, 1, kWindow}, RowOf::kSteps, false).cells();
  arrays_ = {{"X", {"F64", {1, cells}, Bytes(std::vector<double>(static_cast<std::size_t>(cells), 0.25))}},
             {"y", {"F64", {1, kAhead}, Bytes(std::vector<double>(kAhead, 0.25))}}};
  Json rows = {{"summaries", false}, {"lengths_differ", false}, {"neighbours", 1}, {"steps", true}, {"prior", 0.03}};
  EXPECT_EQ(Refusal("neighbours", rows), "");
  for (const double wrong : {0.0, -1.0, 1.5}) {
    rows["prior"] = wrong;
    EXPECT_TRUE(Holds(Refusal("neighbours", rows), "'prior': expected a number above 0, at most 1")) << wrong;
  }
  rows["prior"] = 1, rows["steps"] = false;
  EXPECT_TRUE(Holds(Refusal("neighbours", rows), "'steps' or 'summaries': expected that one of them is true"));
}

TEST_F(PastForecastsTest, DamagedFoldersAreRefused) { RefusesDamage(120); }
using LongPastForecastsTest = PastForecastsTest;
TEST_F(LongPastForecastsTest, TwentyThousandDamagedFoldersAreRefused) { RefusesDamage(20000); }

TEST_F(PastForecastsTest, PeriodsOfTheFormAreKnownAndFitItsSteps) {
  EXPECT_EQ(RefusalOfPeriods({"year", "week"}), "");
  for (const Json& wrong : {Json{"month"}, Json{"week", "week"}, Json{"day"}})
    EXPECT_TRUE(Holds(RefusalOfPeriods(wrong), "periods: expected each of year, week and day at most once")) << wrong;
  config_["form"]["has_dates"] = false;
  EXPECT_TRUE(Holds(RefusalOfPeriods({"week"}), "periods: expected none"));
}

}  // namespace
}  // namespace heed
