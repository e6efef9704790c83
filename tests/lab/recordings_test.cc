// One long recording with a target a step, and forecasts of several targets.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/report/file.h"
#include "lab/report/json.h"
#include "lab/series/batches.h"
#include "lab/series/kept_model.h"
#include "lab/series/predictions.h"
#include "lab/series/scores.h"
#include "lab/study/study.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// One recording: the class says whether the last four values rise.
SeriesData Recording(int64_t steps) {
  SeriesData data;
  data.name = "walk.csv", data.fingerprint = "0", data.goal = "classification", data.target = "moves";
  data.features = {"x"}, data.classes = {"down", "up"}, data.each_step = true;
  SeriesSequence one{"all", steps, {}, {}, {}};
  Random random(3);
  for (int64_t i = 0; i < steps; ++i) {
    one.features.push_back(random.Uniform());
    one.targets.push_back(i >= 3 && one.features[i] > one.features[i - 3] ? 1.0 : 0.0);
  }
  data.sequences.push_back(one);
  return data;
}

// Steps of all windows, which must follow one another from `begin`.
int64_t End(const std::vector<SeriesWindow>& windows, int64_t begin) {
  for (const SeriesWindow& window : windows) {
    EXPECT_EQ(window.first, begin);
    begin = window.end();
  }
  return begin;
}

TEST(RecordingTest, TrainsOnItsBeginningAndTestsOnItsEndInWindows) {
  const SeriesData data = Recording(1000);
  EXPECT_TRUE(CutsSequences(data));
  const SeriesBatches batches(data, {});
  EXPECT_EQ(batches.form().steps(), 25) << "a test part of 200 steps in eight windows";
  EXPECT_EQ(End(batches.TrainingWindows(100), 0), 600);
  EXPECT_EQ(End(batches.validation_windows(), 600), 800);
  EXPECT_EQ(End(batches.test_windows(), 800), 1000);
  EXPECT_EQ(batches.TestBlocks().size(), 8U);
  Random random(1);
  const SeriesBatch batch = batches.Draw(random);
  EXPECT_EQ(batch.steps, 25);
  EXPECT_EQ(batch.classes.size(), 16U * 25U);
  EXPECT_EQ(SeriesBatches(data, {.longest = 10}).form().steps(), 10);
  EXPECT_EQ(SeriesBatches(Recording(120), {}).form().steps(), 16) << "no shorter";
}

TEST(RecordingTest, LongSequencesAreReadWhole) {
  SeriesData data = Recording(50);
  for (const char* id : {"b", "c", "d", "e"}) data.sequences.push_back(data.sequences.front()), data.sequences.back().id = id;
  const SeriesBatches batches(data, {.longest = 20});
  EXPECT_EQ(batches.training_count(), 3 * 3);
  int64_t steps = 0;
  for (const SeriesWindow& window : batches.test_windows()) steps += window.steps;
  EXPECT_EQ(steps, 50);
}

TEST(RecordingTest, IsRefusedWhereItCannotBeCut) {
  SeriesData data = Recording(99);
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { SplitOf(data, 0.2); }), "needs at least 3"));
  data = Recording(1000);
  data.classes.emplace_back("rest");
  data.sequences.front().targets[700] = 2;
  const std::string message = WhatOf<FileError>([&] { SplitOf(data, 0.2); });
  EXPECT_TRUE(Holds(message, "step 700, 'moves': class 'rest' does not occur in the first part of the recording"));
  EXPECT_TRUE(Holds(message, "--sequence"));
  data.sequences.front().targets[7] = 2;
  EXPECT_EQ(SplitOf(data, 0.2).front().training_end, 600);
}

TEST(RecordingTest, PartsOfAFileMayCutIt) {
  const ScratchFolder folder;
  std::string rows = "x,moves,part\n";
  for (int i = 0; i < 60; ++i)
    rows += std::to_string(i % 5) + (i % 3 == 0 ? ",up," : ",down,") +
            (i < 30   ? "training"
             : i < 45 ? "validation"
                      : "test") +
            "\n";
  WriteFile(folder.path() / "walk.csv", rows);
  const SeriesData data = ReadSeriesCsv(folder.path() / "walk.csv", {.target = "moves", .part = "part"});
  const SeriesBatches batches(data, {});
  EXPECT_EQ(End(batches.TrainingWindows(100), 0), 30);
  EXPECT_EQ(End(batches.test_windows(), 45), 60);
}

StudyOptions Small() {
  StudyOptions options = BudgetOptions("quick", StudyKind::kTable);
  options.encoders = {"gru"}, options.positions = {"none"}, options.width = 16, options.heads = 2, options.seeds = 1;
  options.context = 8, options.horizon = 2, options.all_steps = 60;
  return options;
}

// A study of a recording keeps a model that answers every step of a later one, and heed eval scores the same answers, whatever
// part of the file it holds at once.
TEST(RecordingTest, EveryLaterStepIsAnsweredAndScored) {
  const ScratchFolder folder;
  const SeriesData data = Recording(1000);
  RunStudy(SubjectOf(data, "walk.csv", Small()), Small(), folder.path() / "study");
  const KeptModel model = ReadModel(folder.path() / "study" / "model");
  EXPECT_EQ(model.form.longest, 25);
  const SeriesData later = Recording(333);
  const Predictions predictions = Predict(model, later);
  ASSERT_EQ(predictions.rows.size(), 333U);
  double right = 0;
  std::string rows = "x,moves\n";
  for (std::size_t i = 0; i < predictions.rows.size(); ++i) {
    const std::string truth = later.classes[static_cast<std::size_t>(later.sequences[0].targets[i])];
    right += std::get<std::string>(predictions.rows[i][2]) == truth ? 1 : 0;
    rows += fmt::format("{},{}\n", later.sequences[0].features[i], truth);
  }
  WriteFile(folder.path() / "later.csv", rows);
  for (const int64_t block : {int64_t{1} << 20, int64_t{600}}) {
    const SeriesScores scores = ScoresOfCsv(model, folder.path() / "later.csv", 0.2, {}, {}, block);
    EXPECT_EQ(scores.answers, 333) << block;
    const auto accuracy = std::ranges::find(scores.numbers, "accuracy", &std::pair<std::string, double>::first);
    EXPECT_DOUBLE_EQ(accuracy->second, right / 333) << block;
  }
}

TEST(SeveralTargetsTest, EachIsForecastAndKept) {
  const ScratchFolder folder;
  std::string rows = "day,sold,returned\n";
  for (int i = 0; i < 200; ++i) rows += fmt::format("{},{},{}\n", i, 10 + 5 * std::sin(i), 3 + std::cos(0.5 * i));
  WriteFile(folder.path() / "shop.csv", rows);
  const SeriesColumns columns{.target = "sold, returned", .time = "day", .goal = "forecast"};
  const std::vector<SeriesData> data = ReadForecastsCsv(folder.path() / "shop.csv", columns);
  ASSERT_EQ(data.size(), 2U);
  EXPECT_EQ(data[1].target, "returned");
  EXPECT_EQ(data[1].features, (std::vector<std::string>{"sold", "returned"}));
  const StudyResult result = RunStudy(SubjectOf(data, "shop.csv", Small()), Small(), folder.path() / "study");
  ASSERT_EQ(result.tasks.size(), 2U);
  EXPECT_EQ(result.tasks[1].question.purpose, "to forecast 'returned'");
  EXPECT_EQ(ReadModel(folder.path() / "study" / "model").form.target, "sold");
  EXPECT_EQ(ReadModel(folder.path() / "study" / "model-2").form.target, "returned");
  EXPECT_TRUE(Holds(result.data.about, "each of sold and returned by itself"));
  // One alone is as it is without the other.
  const SeriesData sold = ReadSeriesCsv(folder.path() / "shop.csv", {.target = "sold", .time = "day", .goal = "forecast"});
  const StudyResult alone = RunStudy(SubjectOf(sold, "shop.csv", Small()), Small(), folder.path() / "alone");
  EXPECT_EQ(ToJson(alone.tasks[0].contest).dump(), ToJson(result.tasks[0].contest).dump());

  const auto refused = [&](const SeriesColumns& wrong) {
    return WhatOf<InvalidArgument>([&] { ReadForecastsCsv(folder.path() / "shop.csv", wrong); });
  };
  EXPECT_TRUE(Holds(refused({.target = "sold,sold", .goal = "forecast"}), "target: 'sold' is given twice"));
  EXPECT_TRUE(Holds(refused({.target = "sold,bought", .goal = "forecast"}), "bought"));
  EXPECT_TRUE(Holds(refused({.target = "sold,returned"}), "only heed study with --goal forecast takes several targets"));
}

}  // namespace
}  // namespace heed::lab
