#include "lab/series/data.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/series/batches.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

SeriesData OfClasses(const std::vector<double>& classes) {
  SeriesData data;
  data.name = "kinds", data.goal = "classification", data.features = {"x"}, data.target = "kind";
  for (std::size_t s = 0; s < classes.size(); ++s) data.sequences.push_back({std::to_string(s), 1, {0.0}, {}, {classes[s]}});
  return data;
}

std::map<double, int> Counts(const SeriesData& data, const std::vector<int64_t>& part) {
  std::map<double, int> counts;
  for (const int64_t s : part) ++counts[data.sequences[s].targets.front()];
  return counts;
}

// The sequences of each part.
struct Drawn {
  std::vector<int64_t> training, validation, test;

  Drawn(const SeriesData& data, double share) {
    const std::vector<StepParts> parts = SplitSequences(data, share);
    for (int64_t s = 0; s < std::ssize(parts); ++s) {
      EXPECT_TRUE(parts[s].validation_end == 0 || parts[s].validation_end == data.sequences[s].steps);
      EXPECT_TRUE(parts[s].training_end == 0 || parts[s].training_end == parts[s].validation_end);
      (parts[s].validation_end == 0 ? test : parts[s].training_end == 0 ? validation : training).push_back(s);
    }
  }
};

TEST(SeriesSplitTest, EveryClassWithThreeSequencesIsInAllParts) {
  std::vector<double> classes(40, 0.0);
  classes.insert(classes.end(), 3, 1.0);
  classes.insert(classes.end(), 10, 2.0);
  const SeriesData data = OfClasses(classes);
  const Drawn parts(data, 0.2);
  EXPECT_EQ(Counts(data, parts.training), (std::map<double, int>{{0, 24}, {1, 1}, {2, 6}}));
  EXPECT_EQ(Counts(data, parts.validation), (std::map<double, int>{{0, 8}, {1, 1}, {2, 2}}));
  EXPECT_EQ(Counts(data, parts.test), Counts(data, parts.validation));
  std::set<int64_t> all(parts.training.begin(), parts.training.end());
  all.insert(parts.validation.begin(), parts.validation.end());
  all.insert(parts.test.begin(), parts.test.end());
  EXPECT_EQ(all.size(), classes.size());
}

TEST(SeriesSplitTest, RareClassesAreDrawnTogether) {
  const Drawn parts(OfClasses({0, 1, 2, 3, 4}), 0.2);
  EXPECT_EQ(parts.training.size(), 3u);
  EXPECT_EQ(parts.validation.size(), 1u);
  EXPECT_EQ(parts.test.size(), 1u);
  const Drawn two_kinds(OfClasses({0, 0, 0, 1, 2}), 0.2);
  EXPECT_EQ(two_kinds.training.size(), 3u) << "two of rare classes train";
}

TEST(SeriesSplitTest, ThreeSequencesAreEnoughAndTwoAreNot) {
  for (const double share : {0.01, 0.2, 0.49}) {
    const Drawn parts(OfClasses({0, 0, 0}), share);
    EXPECT_EQ(parts.training.size() * parts.validation.size() * parts.test.size(), 1u) << share;
  }
  EXPECT_TRUE(Holds(WhatOf<Error>([] {
                      SplitSequences(OfClasses({0, 1}), 0.2);
                    }),
                    "2 sequence(s); a classification needs at least 3"));
}

TEST(SeriesSplitTest, TheEndOfASequenceIsHeldOutTwice) {
  EXPECT_EQ(SplitSteps(50, 0.2).training_end, 30);
  EXPECT_EQ(SplitSteps(50, 0.2).validation_end, 40);
  EXPECT_EQ(SplitSteps(50, 0.1).training_end, 40);
  EXPECT_EQ(SplitSteps(2, 0.2).training_end, 0);
  EXPECT_EQ(SplitSteps(1, 0.2).validation_end, 0);
}

// Two series of the same hundred days and one that begins at day 60: days 0 to 65, 66 to 82, and the rest.
TEST(SeriesSplitTest, ADayOfAPanelIsInOnePart) {
  const auto days = [](const std::vector<std::pair<int64_t, int64_t>>& from_steps) {
    SeriesData data;
    data.goal = "forecast", data.has_times = data.has_dates = true;
    for (const auto& [from, steps] : from_steps) {
      SeriesSequence& one = data.sequences.emplace_back();
      one.steps = steps;
      for (int64_t i = 0; i < steps; ++i) one.times.push_back(86400.0 * static_cast<double>(from + i));
    }
    return data;
  };
  SeriesData data = days({{0, 100}, {0, 100}, {60, 40}});
  const std::vector<StepParts> parts = SplitOf(data, 0.2);
  ASSERT_EQ(parts.size(), 3U);
  int64_t training = 0, validation = 0;
  for (std::size_t s = 0; s < 3; ++s) {
    const int64_t from = s == 2 ? 60 : 0;
    EXPECT_EQ(from + parts[s].training_end, parts[0].training_end) << s;
    EXPECT_EQ(from + parts[s].validation_end, parts[0].validation_end) << s;
    training += parts[s].training_end, validation += parts[s].validation_end - parts[s].training_end;
  }
  EXPECT_NEAR(static_cast<double>(training), 0.6 * 240, 3);
  EXPECT_NEAR(static_cast<double>(validation), 0.2 * 240, 3);
  EXPECT_EQ(SplitOf(days({{0, 50}, {0, 50}}), 0.2).front().training_end, SplitSteps(50, 0.2).training_end);
  // Decades apart, each is cut by itself.
  EXPECT_EQ(SplitOf(days({{0, 50}, {9000, 50}}), 0.2).back().training_end, 30);
  data.has_dates = false;
  EXPECT_EQ(SplitOf(data, 0.2).back().training_end, SplitSteps(40, 0.2).training_end) << "seconds since each began";
}

TEST(SeriesScaleTest, ChangesAreMeasuredFromNothing) {
  EXPECT_DOUBLE_EQ(ScaleOfChanges({3, -4, 0, 0}, 100), 2.5) << "sqrt(25 / 4)";
  EXPECT_DOUBLE_EQ(ScaleOfChanges({3e-200, -4e-200, 0, 0}, 0), 2.5e-200);
  EXPECT_EQ(ScaleOfChanges({}, 1), 1);
  EXPECT_EQ(ScaleOfChanges({0, 0}, 1), 1);
  EXPECT_EQ(ScaleOfChanges({1e-16, -1e-16}, 0.3), 1) << "rounding";
}

TEST(SeriesRangeTest, TellsWhatLeavesTheTrainingPart) {
  SeriesData data;
  data.name = "line", data.goal = "forecast", data.each_step = true, data.target = "y";
  data.features = {"within", "above"};
  SeriesSequence one{"all", 50, {}, {}, {}};
  for (int64_t i = 0; i < 50; ++i) {
    one.features.insert(one.features.end(), {static_cast<double>(i % 3), i == 45 ? 7.0 : static_cast<double>(i % 5)});
    one.targets.push_back(static_cast<double>(-i));
  }
  data.sequences.push_back(one);
  SeriesCut options;
  options.context = 4;
  const std::vector<SeriesRange> left = RangesLeft(SeriesBatches(data, options));
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].column, "y");
  EXPECT_EQ(left[0].low, -29);
  EXPECT_EQ(left[0].high, 0);
  EXPECT_EQ(left[0].test_low, -49);
  EXPECT_EQ(left[0].test_high, -40);
  EXPECT_EQ(left[0].outside, 1);
  EXPECT_EQ(left[1].column, "above");
  EXPECT_EQ(left[1].high, 4);
  EXPECT_EQ(left[1].test_high, 7);
  EXPECT_DOUBLE_EQ(left[1].outside, 0.1);
}

SeriesData WithParts(const std::string& contents, const std::string& sequence, const std::string& goal) {
  const ScratchFolder folder;
  WriteFile(folder.path() / "data.csv", contents);
  return ReadSeriesCsv(folder.path() / "data.csv",
                       {.target = "y", .sequence = sequence, .time = "", .features = {}, .goal = goal, .part = "part"});
}

TEST(SeriesPartsTest, PartsAreTakenAsTheFileTells) {
  const SeriesData walks = WithParts(
      "id,x,y,part\na,1,run,training\nb,1,walk,test\na,2,run,training\nc,5,run,validation\nb,3,walk,test\n", "id", "");
  EXPECT_EQ(walks.features, std::vector<std::string>{"x"});
  const SeriesBatches batches(walks, {});
  EXPECT_EQ(batches.training_count(), 1);
  EXPECT_EQ(batches.validation_windows().front().sequence, 2);
  EXPECT_EQ(batches.test_windows().front().sequence, 1);
  std::string series = "y,part\n";
  for (int i = 0; i < 20; ++i)
    series += std::to_string(i * i % 7) + (i < 10 ? ",training\n" : i < 14 ? ",validation\n" : ",test\n");
  const SeriesData forecast = WithParts(series, "", "forecast");
  const SeriesBatches windows(forecast, [] {
    SeriesCut cut;
    cut.context = 3;
    return cut;
  }());
  EXPECT_EQ(windows.test_windows().front().end(), 14) << "the first value that is foretold for the test is step 14";
  EXPECT_EQ(windows.validation_windows().front().end(), 10);
}

TEST(SeriesPartsTest, PartsThatCannotBeAreRefused) {
  const auto error = [](const std::string& rows, const std::string& goal) {
    return WhatOf<Error>([&] { WithParts("id,x,y,part\n" + rows, "id", goal); });
  };
  EXPECT_TRUE(Holds(error("a,1,p,training\nb,1,q,dev\n", ""), "row 3, column 'part': 'dev' is no part; expected training"));
  EXPECT_TRUE(Holds(error("a,1,p,training\na,1,p,test\nb,1,q,test\n", ""), "row 3, column 'part': 'test' follows 'training'"));
  EXPECT_TRUE(Holds(error("a,1,1,test\na,2,2,training\n", "forecast"), "row 3, column 'part': 'training' follows 'test'"));
  const SeriesData all = WithParts("id,x,y,part\na,1,p,training\nb,1,q,training\n", "id", "");
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { SeriesBatches(all, {}); }), "to train, to validate and to test, got 2, 0 and 0"));
}

}  // namespace
}  // namespace heed::lab
