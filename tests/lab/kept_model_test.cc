#include "lab/series/kept_model.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/report/file.h"
#include "lab/series/baselines.h"
#include "lab/series/date.h"
#include "lab/series/predictions.h"
#include "lab/series/scores.h"
#include "lab/study/study.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

SeriesData Described(const std::string& goal, bool each_step) {
  SeriesData data;
  data.name = "made.csv", data.fingerprint = "0", data.goal = goal, data.target = "y", data.sequence = "id";
  data.features = {"x", "y"}, data.each_step = each_step;
  if (goal == "classification") data.classes = {"low", "high"};
  return data;
}

// Sequences of 6 to 9 steps whose sum tells class and value.
SeriesData Sums(const std::string& goal, bool each_step) {
  SeriesData data = Described(goal, each_step);
  Random random(7);
  for (int64_t s = 0; s < 60; ++s) {
    SeriesSequence one{"s" + std::to_string(s), 6 + s % 4, {}, {}, {}};
    double sum = 0;
    for (int64_t i = 0; i < one.steps; ++i) {
      one.features.push_back(random.Uniform()), one.features.push_back(3 * random.Uniform());
      sum += one.features[2 * i] - 0.5;
      if (each_step) one.targets.push_back(goal == "classification" ? (sum > 0 ? 1.0 : 0.0) : sum);
    }
    if (!each_step) one.targets.push_back(goal == "classification" ? (sum > 0 ? 1.0 : 0.0) : sum);
    data.sequences.push_back(one);
  }
  return data;
}

// Two sequences of days, warm in summer and on Sundays.
SeriesData Days() {
  SeriesData data = Described("forecast", true);
  data.time = "day", data.has_times = data.has_dates = true;
  Random random(9);
  for (const char* id : {"north", "south"}) {
    SeriesSequence one{id, 800, {}, {}, {}};
    for (int64_t i = 0; i < one.steps; ++i) {
      const double day = static_cast<double>(i);
      one.targets.push_back(30 + 8 * std::sin(2 * M_PI * day / 365.2425) + (i % 7 == 0 ? 4.0 : 0.0) + random.Uniform());
      one.features.push_back(random.Uniform()), one.features.push_back(one.targets.back());
      one.times.push_back(86400 * day);
    }
    data.sequences.push_back(one);
  }
  return data;
}

// Mean loss of a kept model on the test part, by the rule of the study.
double TestLoss(const KeptModel& model, const SeriesBatches& batches, const std::vector<SeriesWindow>& past) {
  const std::vector<SeriesWindow>& windows = batches.test_windows();
  const at::Tensor answers = AnswersOf(model, batches.data(), past)(windows);
  double sum = 0, count = 0;
  int64_t row = 0;
  batches.ForEach(windows, [&](const SeriesBatch& batch) {
    for (std::size_t i = 0; i < batch.scored.size(); ++i, ++row) {
      if (!batch.classes.empty()) {
        sum -= std::log(answers[row][batch.classes[i]].item<double>()), count += 1;
        continue;
      }
      const SeriesWindow& window = windows[model.form.Forecasts() ? row : 0];
      const int64_t outputs = model.form.outputs();
      for (int64_t h = 0; h < outputs; ++h, count += 1) {
        const double truth = batch.values[i * outputs + h] * model.form.target_scale +
                             (model.form.Forecasts() ? batches.data().sequences[window.sequence].targets[window.end() - 1]
                                                     : model.form.target_mean);
        sum += std::pow(truth - answers[row][h].item<double>(), 2);
      }
    }
  });
  EXPECT_EQ(row, answers.size(0));
  return sum / count;
}

SeriesCut Windows() {
  SeriesCut cut;
  cut.context = 8, cut.horizon = 3;
  return cut;
}

// Every goal, and every baseline that it has: what was written and read again loses what the study told.
TEST(KeptModelTest, BaselinesThatAreReadAgainAnswerAsTheyWereMeasured) {
  std::set<std::string> kinds;
  for (const SeriesData& data : {Sums("classification", false), Sums("classification", true), Sums("regression", false),
                                 Sums("regression", true), Days()}) {
    const SeriesBatches batches(data, Windows());
    for (const Baseline& baseline : SeriesBaselines(batches, 1)) {
      ASSERT_NE(baseline.kept.kind, "") << baseline.name;
      const ScratchFolder folder;
      KeptModel model{.name = baseline.name, .form = batches.form(), .method = baseline.kept};
      Calibrate(model, batches);
      WriteModel(model, folder.path());
      const KeptModel again = ReadModel(folder.path());
      EXPECT_EQ(again.low, model.low);
      const bool forecasts = data.Forecasts();
      const double loss = TestLoss(again, batches, forecasts ? batches.StepsBeforeTest() : batches.training_steps());
      EXPECT_NEAR(loss, baseline.loss, 1e-5 * std::abs(baseline.loss)) << baseline.name << ", " << batches.form().goal;
      kinds.insert(again.method.kind);
    }
  }
  EXPECT_EQ(kinds, (std::set<std::string>{"simple", "linear", "neighbours", "season", "smoothing", "calendar"}));
}

StudyOptions OneModel() {
  StudyOptions options = BudgetOptions("quick", StudyKind::kTable);
  options.encoders = {"gru", "attention"}, options.positions = {"relative"}, options.keep = "all";
  options.width = 16, options.heads = 2, options.seeds = 1, options.context = 8, options.horizon = 3, options.all_steps = 40;
  return options;
}

TEST(KeptModelTest, NetworksThatAreReadAgainAnswerAsTheyWereMeasured) {
  for (const SeriesData& data : {Sums("classification", false), Sums("regression", true), Days()}) {
    const ScratchFolder folder;
    const StudyOptions options = OneModel();
    const StudyResult result = RunStudy(SubjectOf(data, "made.csv", options), options, folder.path());
    const SeriesBatches batches(data, {options.batch, options.context, options.horizon, options.longest, 0.2});
    const Measurements& measured = result.tasks.front().contest.at_time;
    for (const SizedContender& contender : measured.models()) {
      const KeptModel model = ReadModel(folder.path() / "models" / (batches.form().goal + "-" + contender.Id()));
      const double expected = measured.Values(contender, measured.ColumnOf("loss")).front();
      EXPECT_NEAR(TestLoss(model, batches, batches.training_steps()), expected, 1e-5 * expected) << contender.Id();
      EXPECT_DOUBLE_EQ(model.reached.at("loss").get<double>(), expected);
    }
    const StudiedTask& task = result.tasks.front();
    const KeptModel winner = ReadModel(folder.path() / "model");
    EXPECT_EQ(winner.network.has_value(), WorthOf(task).ahead);
    const double lost = winner.network ? measured.Values(TakenOf(task.contest).model, measured.ColumnOf("loss")).front()
                                       : task.BestBaseline().loss;
    EXPECT_DOUBLE_EQ(winner.reached.at("loss").get<double>(), lost);
  }
}

// Intervals of 80 % hold 75 to 85 % of later values, noise of one kind, and of both parts that they come from together 80 %.
TEST(KeptModelTest, IntervalsHoldWhatTheySay) {
  SeriesData data = Described("forecast", true);
  Random random(21);
  SeriesSequence one{"all", 4000, {}, {}, {}};
  double level = 0;
  for (int64_t i = 0; i < one.steps; ++i) {
    level = 0.8 * level + random.Uniform() - 0.5;
    one.targets.push_back(level + (i % 12 < 6 ? 2.0 : 0.0));
    one.features.push_back(random.Uniform()), one.features.push_back(one.targets.back());
  }
  data.sequences.push_back(one);
  const SeriesBatches batches(data, Windows());
  for (const Baseline& baseline : SeriesBaselines(batches, 1)) {
    KeptModel model{.name = baseline.name, .form = batches.form(), .method = baseline.kept};
    Calibrate(model, batches);
    const auto inside = [&](const std::vector<SeriesWindow>& windows, const std::vector<SeriesWindow>& past) {
      const at::Tensor answers = AnswersOf(model, data, past)(windows);
      double count = 0;
      for (int64_t i = 0; i < answers.size(0); ++i) {
        for (int64_t h = 0; h < 3; ++h) {
          const double beside = data.sequences[0].targets[windows[i].end() + h] - answers[i][h].item<double>();
          count += beside >= model.low[h] && beside <= model.high[h] ? 1 : 0;
        }
      }
      return count / static_cast<double>(answers.numel());
    };
    const double tested = inside(batches.test_windows(), batches.StepsBeforeTest());
    const double validated = inside(batches.validation_windows(), batches.training_steps());
    EXPECT_NEAR(tested, 0.8, 0.05) << baseline.name;
    EXPECT_EQ(batches.test_count(), batches.validation_count());
    EXPECT_NEAR((tested + validated) / 2, 0.8, 0.004) << baseline.name;
  }
}

KeptModel Ridge(const SeriesData& data) {
  const SeriesBatches batches(data, Windows());
  for (const Baseline& baseline : SeriesBaselines(batches, 1)) {
    if (baseline.name != "ridge regression" && baseline.name != "logistic regression") continue;
    KeptModel model{.name = baseline.name, .form = batches.form(), .method = baseline.kept};
    Calibrate(model, batches);
    return model;
  }
  return {};
}

// A sequence of two weeks beside one of two years: the study forecasts it without a season or with a flat curve, and so does
// what it keeps.
TEST(KeptModelTest, ShortSequencesOfAPanelAreAnsweredAsInTheStudy) {
  SeriesData data = Days();
  SeriesSequence& brief = data.sequences[1];
  brief.steps = 24;
  brief.targets.resize(24), brief.times.resize(24), brief.features.resize(48);
  const SeriesBatches batches(data, Windows());
  std::set<std::string> kinds;
  for (const Baseline& baseline : SeriesBaselines(batches, 1)) {
    KeptModel model{.name = baseline.name, .form = batches.form(), .method = baseline.kept};
    Calibrate(model, batches);
    EXPECT_NEAR(TestLoss(model, batches, batches.StepsBeforeTest()), baseline.loss, 1e-5 * std::abs(baseline.loss))
        << baseline.name;
    EXPECT_EQ(Predict(model, data).rows.size(), 6u) << baseline.name;
    kinds.insert(model.method.kind);
  }
  EXPECT_TRUE(kinds.contains("calendar") && kinds.contains("smoothing"));
}

TEST(PredictTest, EveryStepOfALongSequenceIsAnsweredOnce) {
  const SeriesData data = Sums("regression", true);
  const KeptModel model = Ridge(data);
  ASSERT_EQ(model.form.longest, 9);
  SeriesData later = data;
  later.sequences.resize(2);
  SeriesSequence& longer = later.sequences[1];
  for (int64_t i = 0; i < 4; ++i)
    longer.features.insert(longer.features.end(), longer.features.begin(), longer.features.begin() + 2 * 7);
  longer.steps = 35, longer.targets.clear();
  const Predictions predictions = Predict(model, later);
  EXPECT_EQ(predictions.columns, (std::vector<std::string>{"id", "row", "y", "low", "high"}));
  ASSERT_EQ(predictions.rows.size(), 6u + 35u);
  for (int64_t i = 0; i < 35; ++i) EXPECT_EQ(std::get<int64_t>(predictions.rows[6 + i][1]), i);
  EXPECT_EQ(std::get<std::string>(predictions.rows[6][0]), "s1");
  EXPECT_LT(std::get<double>(predictions.rows[6][3]), std::get<double>(predictions.rows[6][4]));
}

TEST(PredictTest, ForecastsFollowTheLastStep) {
  const SeriesData data = Days();
  const KeptModel model = Ridge(data);
  const Predictions predictions = Predict(model, data);
  EXPECT_EQ(predictions.columns, (std::vector<std::string>{"id", "ahead", "day", "y", "low", "high"}));
  ASSERT_EQ(predictions.rows.size(), 6u);
  EXPECT_EQ(std::get<int64_t>(predictions.rows[5][1]), 3);
  const at::Tensor expected = AnswersOf(model, data, {{0, 0, 800}, {1, 0, 800}})({{0, 792, 8}, {1, 792, 8}});
  EXPECT_EQ(std::get<std::string>(predictions.rows[4][2]), "1972-03-12") << "800 days after 1970 began, and one";
  EXPECT_EQ(std::get<double>(predictions.rows[4][3]), expected[1][1].item<double>());
  EXPECT_EQ(predictions.Csv().substr(0, 26), "id,ahead,day,y,low,high\nno");
  EXPECT_EQ(predictions.Json()[5]["id"], "south");
  EXPECT_EQ(predictions.Json()[4]["y"].get<double>(), expected[1][1].item<double>()) << "every digit";
  EXPECT_TRUE(Holds(predictions.Csv(), fmt::format("south,2,1972-03-12,{:.7g},", expected[1][1].item<double>())))
      << predictions.Csv();
}

// Dates go on as people count them.
TEST(PredictTest, TimesGoOn) {
  const auto after = [](const std::vector<std::string>& dates, double days, int64_t count, int64_t context = 32) {
    SeriesForm form;
    form.has_times = form.has_dates = true, form.typical_step = 86400 * days, form.context = context;
    std::vector<double> times, next(count);
    for (const std::string& date : dates) times.push_back(SecondsOfDate(date).value());
    ContinueTimes(form, times, next);
    std::vector<std::string> told;
    for (const double time : next) told.push_back(MomentOf(time));
    return fmt::format("{}", fmt::join(told, " "));
  };
  EXPECT_EQ(after({"2024-02-27"}, 1, 3), "2024-02-28 2024-02-29 2024-03-01");
  EXPECT_EQ(after({"2024-02-20", "2024-02-27"}, 7, 2), "2024-03-05 2024-03-12");
  EXPECT_EQ(after({"2023-11-15", "2023-12-15"}, 31, 3), "2024-01-15 2024-02-15 2024-03-15");
  EXPECT_EQ(after({"2023-12-31", "2024-01-31"}, 31, 3), "2024-02-29 2024-03-31 2024-04-30");
  EXPECT_EQ(after({"2023-12-30", "2024-01-30"}, 31, 3), "2024-02-29 2024-03-30 2024-04-30");
  EXPECT_EQ(after({"2024-02-29", "2024-04-30"}, 61, 2), "2024-06-30 2024-08-31");
  EXPECT_EQ(after({"2023-10-01", "2024-01-01"}, 92, 2), "2024-04-01 2024-07-01");
  EXPECT_EQ(after({"2019-02-28", "2020-02-29"}, 365, 2), "2021-02-28 2022-02-28");
  EXPECT_EQ(after({"2020-01-01 06:00", "2021-01-01 06:00"}, 365, 2), "2022-01-01T06:00:00 2023-01-01T06:00:00");
  EXPECT_EQ(after({"2024-01-01", "2024-01-31"}, 30, 2), "2024-03-01 2024-03-31") << "thirty days are no month";
  EXPECT_EQ(after({"2024-01-01 10:00", "2024-01-01 10:30:00.25"}, 1.0 / 48, 2),
            "2024-01-01T11:00:00.250 2024-01-01T11:30:00.250");
  const std::vector<std::string> week = {"2024-03-01", "2024-03-04", "2024-03-05", "2024-03-06", "2024-03-07", "2024-03-08"};
  EXPECT_EQ(after(week, 1, 3), "2024-03-11 2024-03-12 2024-03-13");
  EXPECT_EQ(after({week.begin() + 1, week.end()}, 1, 2), "2024-03-09 2024-03-10") << "five days may go on on Saturday";
  SeriesForm form;
  form.has_times = true, form.typical_step = 0.5;
  std::vector<double> next(2);
  ContinueTimes(form, std::vector<double>{3, 4}, next);
  EXPECT_EQ(next, (std::vector<double>{4.5, 5}));
  form.has_dates = true, form.typical_step = 1e200;
  ContinueTimes(form, std::vector<double>{-1e300, 1e300}, next);  // what a caller may give
  EXPECT_EQ(next, (std::vector<double>{1e300, 1e300}));
}

TEST(PredictTest, WhatIsTooShortOrTooLargeIsNamed) {
  const KeptModel model = Ridge(Days());
  SeriesData short_one = Days();
  short_one.sequences[1].steps = 5;
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { Predict(model, short_one); }), "made.csv: sequence south has 5 steps"));
  SeriesData huge = Days();
  huge.sequences[0].features[40] = 1e200;
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { Predict(model, huge); }), "1e+200"));
  KeptModel season = model;
  season.method = {"smoothing",
                   {{"season", 500}, {"logs", false}, {"level", 0.1}, {"trend", 0.1}, {"season_rate", 0.1}, {"damping", 1}}};
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { Predict(season, Days()); }), "a season of 500 needs 1000"));
  season.method = {"season", {{"season", 900}}};
  EXPECT_TRUE(
      Holds(WhatOf<FileError>([&] { Predict(season, Days()); }), "sequence north has 800 steps; the last season needs 900"));
  season.method = {"smoothing",
                   {{"season", 7}, {"logs", true}, {"level", 0.1}, {"trend", 0.1}, {"season_rate", 0.1}, {"damping", 1}}};
  SeriesData frost = Days();
  frost.sequences[1].targets[3] = -1;
  EXPECT_TRUE(Holds(WhatOf<FileError>([&] { Predict(season, frost); }), "-1 has no logarithm"));
}

// By hand: truths 1, 0, 1, 1 with the probabilities of class 1 below.
TEST(ScoreTest, ClassesByHand) {
  KeptModel model{.name = "shares", .form = {}, .method = {"simple", {{"shares", {0.25, 0.75}}}}};
  model.form.sequence = "id", model.form.target = "y", model.form.features = {"x"}, model.form.classes = {"no", "yes"};
  model.form.mean = {0}, model.form.deviation = model.form.change = {1};
  const ScratchFolder folder;
  WriteFile(folder.path() / "rows.csv", "id,x,y\na,0,yes\nb,0,no\nc,0,yes\nd,0,yes\n");
  const SeriesScores scores = ScoresOfCsv(model, folder.path() / "rows.csv", 0.2);
  EXPECT_EQ(scores.answers, 4);
  ASSERT_EQ(scores.numbers.size(), 4u);
  EXPECT_NEAR(scores.numbers[0].second, -(3 * std::log(0.75) + std::log(0.25)) / 4, 1e-12);
  EXPECT_DOUBLE_EQ(scores.numbers[1].second, 0.75);
  EXPECT_DOUBLE_EQ(scores.numbers[2].second, (0 + 6.0 / 7) / 2) << "F1 of the class that is never said is 0";
  EXPECT_DOUBLE_EQ(scores.numbers[3].second, 0.5) << "equal probabilities rank nothing";
}

TEST(ScoreTest, ForecastsByHand) {
  KeptModel model{.name = "last value", .form = {}, .method = {"simple"}, .low = {-1}, .high = {0.5}};
  model.form.goal = "forecast", model.form.each_step = true, model.form.context = 2, model.form.features = {"x"};
  model.form.target = "y", model.form.mean = {0}, model.form.deviation = model.form.change = {1};
  const ScratchFolder folder;
  WriteFile(folder.path() / "rows.csv", "x,y\n0,0\n0,1\n0,2\n0,3\n0,4\n0,5\n0,6\n0,7\n0,8\n0,9\n");
  const SeriesScores scores = ScoresOfCsv(model, folder.path() / "rows.csv", 0.2);
  EXPECT_EQ(scores.answers, 2);
  const std::vector<double> expected = {1, 1, 1, (0.1 * 2 + 0.9 * 0.5) / 2, 0};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(scores.numbers[i].second, expected[i], 1e-6) << scores.numbers[i].first;
}

// Only the new rows of a file that goes on.
TEST(ScoreTest, StepsFromATimeOnAreScored) {
  KeptModel model{.name = "last value", .form = {}, .method = {"simple"}, .low = {-1}, .high = {0.5}};
  model.form.goal = "forecast", model.form.each_step = true, model.form.context = 2, model.form.features = {"x"};
  model.form.target = "y", model.form.mean = {0}, model.form.deviation = model.form.change = {1};
  const ScratchFolder folder;
  std::string rows = "day,t,x,y\n";
  for (int64_t i = 0; i < 10; ++i) rows += fmt::format("2024-03-{:02},{},0,{}\n", i + 1, 10 * i, i * i);
  WriteFile(folder.path() / "rows.csv", rows);
  const auto scores = [&](const std::string& from) {
    return ScoresOfCsv(model, folder.path() / "rows.csv", 0.2, {}, {}, kBlockBytes, from);
  };
  const auto refusal = [&](const std::string& from) { return WhatOf<InvalidArgument>([&] { scores(from); }); };
  const auto expect = [&](const std::string& from) {  // 49 to 64 and 64 to 81, after steps of 1, 3, .. 13
    EXPECT_EQ(scores(from).answers, 2) << from;
    EXPECT_DOUBLE_EQ(scores(from).numbers[0].second, (15.0 * 15 + 17 * 17) / 2) << from;
    EXPECT_DOUBLE_EQ(scores(from).numbers[2].second, 16 / 7.0) << from;
  };
  expect("10");  // the row, as there are no times
  EXPECT_TRUE(Holds(refusal("2024-03-09"), "from: '2024-03-09': it is a date, and the model reads none; give the row"));
  EXPECT_TRUE(Holds(refusal("tomorrow"), "from: 'tomorrow': expected a row of the file"));
  EXPECT_TRUE(Holds(refusal("12"), "from: '12': the file ends before it"));
  EXPECT_TRUE(Holds(refusal("2"), "from: '2': the file begins there or later"));
  model.form.has_times = true, model.form.time = "t", model.form.typical_step = 10;
  expect("80"), expect("71.5");
  EXPECT_TRUE(Holds(refusal("91"), "the file ends before it")) << refusal("91");
  model.form.has_dates = true, model.form.time = "day", model.form.typical_step = 86400;
  expect("2024-03-09"), expect("2024-03-08 12:00"), expect("10");
  EXPECT_TRUE(Holds(refusal("1.5"), "expected a date, as 2024-03-01, or a row of the file")) << refusal("1.5");
  model.form.horizon = 3, model.low = model.high = {0, 0, 0};
  EXPECT_TRUE(
      Holds(WhatOf<FileError>([&] { scores("2024-03-09"); }), "from --from on they need as many as the model predicts"));
  // Steps with answers of their own, in blocks of any size.
  KeptModel shares{.name = "shares", .form = {}, .method = {"simple", {{"shares", {0.25, 0.75}}}}};
  shares.form.sequence = "id", shares.form.target = "y", shares.form.features = {"x"}, shares.form.classes = {"no", "yes"};
  shares.form.mean = {0}, shares.form.deviation = shares.form.change = {1}, shares.form.longest = 3;
  rows = "id,x,y\n";
  for (int64_t i = 0; i < 40; ++i) rows += fmt::format("{},0,{}\n", i / 20, i % 3 == 0 ? "no" : "yes");
  WriteFile(folder.path() / "steps.csv", rows);
  const auto steps = [&](int64_t block) { return ScoresOfCsv(shares, folder.path() / "steps.csv", 0.2, {}, {}, block, "30"); };
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { steps(kBlockBytes); }), "from: '30': the model has one answer a sequence"));
  shares.form.each_step = true;
  for (const int64_t block : {int64_t{16}, int64_t{64}, kBlockBytes}) {
    EXPECT_EQ(steps(block).answers, 12) << block;
    EXPECT_DOUBLE_EQ(steps(block).numbers[1].second, 8.0 / 12) << block;
  }
}

void Damage(const std::filesystem::path& file, Random& random) {
  std::string bytes = ReadFile(file);
  switch (random.Below(4)) {
    case 0:
      bytes.resize(random.Below(bytes.size()));
      break;
    case 1:
      bytes.insert(random.Below(bytes.size()), std::string(1 + random.Below(9), static_cast<char>(random.Below(256))));
      break;
    case 2: {  // a number becomes another
      const std::size_t at = bytes.find_first_of("0123456789", random.Below(bytes.size()));
      if (at != std::string::npos) bytes.replace(at, 1, random.Below(2) == 0 ? "9999999" : "-1");
      break;
    }
    default:
      bytes[random.Below(bytes.size())] = static_cast<char>(random.Below(256));
  }
  WriteFile(file, bytes);
}

TEST(KeptModelTest, NeighboursOfNoClassAreRefused) {
  const SeriesData data = Sums("classification", false);
  const SeriesBatches batches(data, Windows());
  const std::vector<Baseline> baselines = SeriesBaselines(batches, 1);
  const auto found = std::ranges::find(baselines, "nearest neighbours", &Baseline::name);
  ASSERT_NE(found, baselines.end());
  KeptModel model{.name = found->name, .form = batches.form(), .method = found->kept};
  const ScratchFolder folder;
  const auto answer = [&] {
    WriteModel(model, folder.path());
    Predict(ReadModel(folder.path()), data);
  };
  answer();
  for (const int64_t wrong : {-1, 2}) {
    at::Tensor& y = model.method.arrays.at("y");
    y = y.clone();
    y[0] = wrong;
    EXPECT_TRUE(Holds(WhatOf<Error>(answer), "'y' does not fit this kind of method")) << wrong;
  }
}

// A folder that something happened to is refused, or answers what its files still say; nothing else.
void RefusesDamage(int64_t folders) {
  const ScratchFolder scratch;
  const SeriesData days = Days(), sums = Sums("classification", false);
  const StudyOptions options = OneModel();
  RunStudy(SubjectOf(days, "made.csv", options), options, scratch.path() / "study");
  WriteModel(Ridge(sums), scratch.path() / "ridge");
  Random random(31);
  int64_t refused = 0;
  for (int64_t i = 0; i < folders; ++i) {
    const bool network = i % 2 == 0;
    const auto from = network ? scratch.path() / "study/models/forecast-gru" : scratch.path() / "ridge";
    const auto folder = scratch.path() / "damaged";
    std::filesystem::remove_all(folder);
    std::filesystem::copy(from, folder);
    Damage(folder / (random.Below(4) == 0 ? "model.safetensors" : "config.json"), random);
    try {
      Predict(ReadModel(folder), network ? days : sums);
    } catch (const Error& error) {
      ++refused;
      EXPECT_FALSE(std::string(error.what()).empty());
    }
  }
  EXPECT_GT(refused, folders / 3);
}

TEST(KeptModelTest, DamagedFoldersAreRefused) { RefusesDamage(400); }
TEST(LongKeptModelTest, TwentyThousandDamagedFoldersAreRefused) { RefusesDamage(20000); }

TEST(KeptModelTest, WhatIsWrongIsNamed) {
  const ScratchFolder scratch;
  WriteModel(Ridge(Sums("classification", false)), scratch.path());
  const std::filesystem::path config = scratch.path() / "config.json";
  const auto whole = nlohmann::ordered_json::parse(ReadFile(config));
  const auto error = [&](const std::function<void(nlohmann::ordered_json&)>& change) {
    nlohmann::ordered_json json = whole;
    change(json);
    WriteFile(config, json.dump());
    return WhatOf<FileError>([&] { Predict(ReadModel(scratch.path()), Sums("classification", false)); });
  };
  EXPECT_TRUE(Holds(error([](auto& json) { json["format"] = 2; }), "config.json: 'format' is 2; this program reads 1"));
  EXPECT_TRUE(Holds(error([](auto& json) { json["form"].erase("mean"); }), "'mean' is missing"));
  EXPECT_TRUE(Holds(error([](auto& json) {
                      json["form"]["deviation"] = {0, 1};
                    }),
                    "deviation: 0 is not a finite number above 0"));
  EXPECT_TRUE(Holds(error([](auto& json) { json["form"]["classes"].push_back("other"); }), "'W' does not fit"));
  EXPECT_TRUE(Holds(error([](auto& json) { json["form"]["has_times"] = true; }), "time: expected the name of a column"));
  EXPECT_TRUE(Holds(error([](auto& json) { json["method"]["kind"] = "oracle"; }), "the method \"oracle\" is unknown"));
  EXPECT_TRUE(Holds(error([](auto& json) { json["low"] = {1}; }), "'low' and 'high': expected 0 numbers each"));
  EXPECT_EQ(error([](auto&) {}), "");
}

}  // namespace
}  // namespace heed::lab
