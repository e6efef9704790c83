#include "lab/series/data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/series/baselines.h"
#include "lab/series/batches.h"
#include "lab/series/csv_table.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

std::filesystem::path Written(const ScratchFolder& folder, const std::string& name, const std::string& contents) {
  WriteFile(folder.path() / name, contents);
  return folder.path() / name;
}

SeriesColumns Columns(const std::string& target, const std::string& sequence = "", const std::string& time = "",
                      const std::string& goal = "", const std::vector<std::string>& features = {}) {
  return {target, sequence, time, features, goal};
}

SeriesData Csv(const std::string& contents, const SeriesColumns& columns) {
  const ScratchFolder folder;
  return ReadSeriesCsv(Written(folder, "data.csv", contents), columns);
}

std::string CsvError(const std::string& contents, const SeriesColumns& columns = Columns("y")) {
  return WhatOf<Error>([&] { Csv(contents, columns); });
}

TEST(CsvTableTest, ReadsQuotesLineEndsAndAByteOrderMark) {
  const CsvTable table("t",
                       "\xef\xbb\xbf"
                       "a,\"b \"\"c\"\"\"\r\n1,\"x,\ny\"\n2,z\n\n");
  EXPECT_EQ(table.columns(), (std::vector<std::string>{"a", "b \"c\""}));
  ASSERT_EQ(table.rows(), 2);
  EXPECT_EQ(table.Cell(0, 1), "x,\ny");
  EXPECT_EQ(table.Number(1, 0), 2);
  EXPECT_EQ(table.Place(1, 0), "t: row 4, column 'a': ") << "a quoted cell holds a line end";
}

TEST(CsvTableTest, EmptyLinesAreLeftOutAtTheEndAlone) {
  for (const char* end : {"", "\n", "\n\n\n", "\r\n\r\n"}) {
    EXPECT_EQ(CsvTable("t", std::string("a,b\n1,2") + end).rows(), 1);
    EXPECT_EQ(CsvTable("t", std::string("a\n1\n2") + end).rows(), 2);
  }
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t", "a\n1\n\n\n2\n"); }), "row 3: the line is empty"));
  const CsvTable quoted("t", "a\n1\n\"\"\n");
  ASSERT_EQ(quoted.rows(), 2) << "an empty cell is a cell";
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { quoted.Text(1, 0); }), "t: row 3, column 'a': the value is missing"));
}

TEST(CsvTableTest, NamesRowAndColumnOfWhatIsWrong) {
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", "a,b\n1,2\n3\n"); }), "t.csv: row 3: 1 cell where the header has 2"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", "a,b\n1,2,3\n"); }), "row 2: 3 cells"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", "a,b\n1,\"2\n"); }), "row 2: a quote is not closed"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", "a,b\n\"1\"x,2\n"); }), "row 2: text follows"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", "a,b\n\n1,2\n"); }), "row 2: the line is empty"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", "a,a\n1,2\n"); }), "'a' is there twice"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", "a,\n1,2\n"); }), "column 2 has no name"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", "a,b\n"); }), "no rows"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", ""); }), "empty"));
  EXPECT_TRUE(Holds(WhatOf<Error>([] { CsvTable("t.csv", std::string("a\n1\0\n", 5)); }), "zero byte"));
  const CsvTable table("t.csv", "a\nx\n \n1e400\nnan\n+2.5\n");
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { table.Number(0, 0); }), "row 2, column 'a': 'x' is not a finite number"));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { table.Number(1, 0); }), "the value is missing"));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { table.Number(2, 0); }), "not a finite number"));
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { table.Number(3, 0); }), "'nan' stands for a missing value"));
  EXPECT_EQ(table.Number(4, 0), 2.5);
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { table.Column("target", "b"); }), "target: t.csv has no column 'b'; it has a"));
}

TEST(SeriesDataTest, RowsOfASequenceNeedNotStandTogether) {
  const SeriesData data =
      Csv("id,t,x,y\nb,1,5,walk\na,1,1,run\nb,2.5,6,walk\na,9,2,run\na,10,3,run\n", Columns("y", "id", "t"));
  ASSERT_EQ(data.sequences.size(), 2u);
  EXPECT_EQ(data.goal, "classification");
  EXPECT_EQ(data.features, std::vector<std::string>{"x"});
  EXPECT_EQ(data.classes, (std::vector<std::string>{"run", "walk"}));
  EXPECT_EQ(data.sequences[0].id, "b");
  EXPECT_EQ(data.sequences[0].times, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(data.sequences[1].features, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(data.sequences[1].targets, std::vector<double>{0}) << "one for the sequence";
  EXPECT_FALSE(data.each_step);
}

TEST(SeriesDataTest, TheTargetDecidesTheGoal) {
  const std::string whole = "id,x,y\na,1,2\na,2,10\nb,3,2\n", real = "id,x,y\na,1,2.5\na,2,2.5\nb,3,1\n";
  const SeriesColumns columns = Columns("y", "id");
  const SeriesData classes = Csv(whole, columns);
  EXPECT_EQ(classes.goal, "classification");
  EXPECT_EQ(classes.classes, (std::vector<std::string>{"2", "10"})) << "by value, not by the alphabet";
  EXPECT_TRUE(classes.each_step);
  EXPECT_EQ(Csv(real, columns).goal, "regression");
  EXPECT_FALSE(Csv(real, columns).each_step);
  const SeriesData numbers = Csv(whole, Columns("y", "id", "", "regression"));
  EXPECT_EQ(numbers.sequences[0].targets, (std::vector<double>{2, 10}));
  const SeriesData forecast = Csv(real, Columns("y", "id", "", "forecast"));
  EXPECT_EQ(forecast.features, (std::vector<std::string>{"x", "y"})) << "a forecast looks at the past of its target";
  EXPECT_TRUE(forecast.each_step);
}

TEST(SeriesDataTest, TextAmongNumbersIsAskedAbout) {
  for (const char* contents : {"x,y\n1,NA\n2,2.5\n3,1\n", "x,y\n1,1\n2,NA\n", "x,y\n1,1.5\n2,1\n3,nan\n"}) {
    EXPECT_TRUE(Holds(CsvError(contents), "stands for a missing value; fill it in, remove the row, or give --goal forecast"))
        << contents;
  }
  EXPECT_TRUE(
      Holds(CsvError("x,y\n1,much\n2,2.5\n"), "'much' stands among numbers; fill it in, or give --goal classification"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1,1.5\n2,NA\n"), "row 3, column 'y': 'NA'"));
  const SeriesData named = Csv("x,y\n1,NA\n2,7\n", Columns("y", "", "", "classification"));
  EXPECT_EQ(named.classes, (std::vector<std::string>{"7", "NA"}));
}

TEST(SeriesDataTest, TheFingerprintTellsHowRowsWerePutTogether) {
  const std::string table = "a,b,x,y\n1,1,5,p\n1,2,6,q\n2,3,7,p\n";
  const auto fingerprint = [&](const std::string& sequence, const std::string& time) {
    return Csv(table, Columns("y", sequence, time, "", {"x"})).fingerprint;
  };
  const std::set<std::string> all = {fingerprint("", ""), fingerprint("a", ""), fingerprint("b", ""), fingerprint("", "b"),
                                     fingerprint("a", "b")};
  EXPECT_EQ(all.size(), 5u);
  EXPECT_EQ(fingerprint("a", "b"), fingerprint("a", "b"));
  // One word as a column of names, and as what comes first in dates.
  const std::string days = "day,x,y\n1,5,p\n2,6,q\n";
  SeriesColumns named = Columns("y"), ordered = named, spelt = named;
  named.categories = {"day"}, ordered.date_order = "day", spelt.csv.separator = "comma";
  EXPECT_EQ((std::set<std::string>{Csv(days, Columns("y")).fingerprint, Csv(days, named).fingerprint,
                                   Csv(days, ordered).fingerprint, Csv(days, spelt).fingerprint})
                .size(),
            4u);
}

TEST(SeriesDataTest, ErrorsNameWhatIsWrongAndWhere) {
  EXPECT_TRUE(Holds(CsvError("x,y\n1,2.5\nabc,2\n"), "data.csv: row 3, column 'x': 'abc' stands among numbers"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1,2.5\n2,\n"), "row 3, column 'y': the value is missing"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1,a\n2,\n"), "row 3, column 'y': the value is missing"));
  EXPECT_TRUE(Holds(CsvError("x,z\n1,2\n"), "no column 'y'; it has x, z"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1,a\n2,a\n"), "only one class"));
  EXPECT_TRUE(Holds(CsvError("y\n1.5\n"), "no column beside"));
  EXPECT_TRUE(Holds(CsvError("t,x,y\n1,2,2.5\n1,3,2.5\n", Columns("y", "", "t")), "row 3, column 't': times"));
  const std::string dates = "t,x,y\n2024-03-01,2,2.5\n2024-03-01T01:00,3,2.5\n";
  EXPECT_EQ(Csv(dates, Columns("y", "", "t")).sequences[0].times, (std::vector<double>{1709251200, 1709254800}));
  EXPECT_TRUE(
      Holds(CsvError(dates + "1709254900,3,2.5\n", Columns("y", "", "t")), "row 4, column 't': '1709254900' is no time"));
  EXPECT_TRUE(Holds(CsvError("t,x,y\n1,2,2.5\n2024-03-01,3,2.5\n", Columns("y", "", "t")), "row 3, column 't': '2024-03-01'"));
  EXPECT_TRUE(Holds(CsvError("id,x,y\n,2,2.5\n", Columns("y", "id")), "row 2, column 'id'"));
  EXPECT_TRUE(Holds(CsvError("id,x,y\n \t,2,2.5\n", Columns("y", "id")), "row 2, column 'id': the value is missing"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1,a\n2, \n"), "row 3, column 'y': the value is missing"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1, \n2,a\n", Columns("y", "", "", "classification")), "row 2, column 'y'"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1,2\n", Columns("y", "", "", "", {"y"})), "'y' is the target"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1,2\n", Columns("y", "", "", "", {"x", "x"})), "twice"));
  EXPECT_TRUE(Holds(CsvError("x,y\n1,2\n", Columns("y", "", "", "ranking")), "'ranking'"));
}

TEST(CsvTableTest, SpacesAroundCellsAreNoPartOfThem) {
  const SeriesData data = Csv("id, x ,\ty\na,1,run\n a ,2, run\n\"b \",3,walk\t\n", Columns(" y", "id ", "", "", {"x"}));
  EXPECT_EQ(data.classes, (std::vector<std::string>{"run", "walk"}));
  ASSERT_EQ(data.sequences.size(), 2u);
  EXPECT_EQ(data.sequences[0].steps, 2);
  EXPECT_EQ(data.target, "y");
  EXPECT_TRUE(Holds(CsvError("x, x,y\n1,2,3\n"), "'x' is there twice"));
  EXPECT_EQ(Csv("z,x, y\n1,1,2.5\n", Columns("y ")).features, (std::vector<std::string>{"z", "x"}));
}

TEST(SeriesDataTest, WhatWouldBeTakenForSomethingElseIsRefused) {
  struct Refused {
    std::string contents;
    SeriesColumns columns;
    std::string message;
  };
  const std::vector<Refused> refused = {
      {"x,y\n1,1\n2,2\n3,1.0\n", Columns("y"), "row 4, column 'y': '1.0' and '1' in row 2 are one number"},
      {"x,y\n1,1\n2,a\n3,+1\n", Columns("y", "", "", "classification"), "row 4, column 'y': '+1' and '1' in row 2"},
      {"id,x,y\n07,1,0.5\n7,2,0.5\n", Columns("y", "id"), "row 3, column 'id': '7' and '07' in row 2 are one number"},
      {"t,x,y\n19580329,1,0.5\n19580330,2,0.5\n", Columns("y", "", "t"),
       "row 2, column 't': '19580329' reads as a date; write it as 1958-03-29"},
      {"day,y\n19580329,0.5\n19580330,0.5\n", Columns("y"), "row 2, column 'day': '19580329' reads as a date"},
      {"x,y\n1,2.5\n2,caf\xe9\n", Columns("y"), "data.csv is not UTF-8: no valid character begins at byte 15"},
  };
  for (const Refused& one : refused) EXPECT_TRUE(Holds(CsvError(one.contents, one.columns), one.message)) << one.contents;
  EXPECT_EQ(Csv("t,y\n19580329.0,0.5\n19580401,0.5\n", Columns("y", "", "t", "", {"t"})).sequences[0].times.size(), 2u);
  EXPECT_EQ(Csv("t,y\n19580329,0.5\n19580431,0.5\n", Columns("y", "", "t", "", {"t"})).sequences[0].times.size(), 2u)
      << "April 31";
  EXPECT_EQ(Csv("x;z,y\n1,0.5\n", Columns("y")).features, std::vector<std::string>{"x;z"});
}

TEST(SeriesDataTest, OneSequenceOfWholeNumbersIsToldWhatItMayBe) {
  std::string table = "month,passengers\n";
  for (int row = 0; row < 144; ++row) table += std::to_string(row) + "," + std::to_string(100 + row) + "\n";
  const auto error = [](const SeriesData& data) { return WhatOf<Error>([&] { SeriesBatches(data, SeriesCut()); }); };
  const std::string classes = error(Csv(table, Columns("passengers")));
  for (const char* part : {"--sequence", "--goal forecast", "--goal regression", "'passengers'"})
    EXPECT_TRUE(Holds(classes, part)) << classes;
  const std::vector<std::string> notes = Csv(table, Columns("passengers", "", "", "regression")).notes;
  EXPECT_TRUE(notes.size() == 1 && Holds(notes[0], "--goal forecast predicts its next values instead"));
  const std::string few = error(Csv("x,y\n1,1.5\n2,2.5\n3,3.5\n", Columns("y")));
  EXPECT_TRUE(Holds(few, "or 100 steps with targets of their own") && Holds(few, "--goal forecast")) << few;
  EXPECT_FALSE(Holds(error(Csv("x,y\n1,walk\n2,walk\n3,run\n", Columns("y"))), "forecast"));
}

// `count` sequences of the given steps whose feature is 10, 11, .. and whose target is twice the first.
SeriesData Counting(int64_t count, int64_t steps) {
  SeriesData data;
  data.name = "counting", data.goal = "regression", data.features = {"x"}, data.target = "y";
  for (int64_t s = 0; s < count; ++s) {
    SeriesSequence one{std::to_string(s), steps + s % 2, {}, {}, {2.0 * static_cast<double>(s)}};
    for (int64_t i = 0; i < one.steps; ++i) one.features.push_back(static_cast<double>(10 * s + i));
    data.sequences.push_back(one);
  }
  return data;
}

SeriesCut Plain() {
  SeriesCut options;
  options.batch = 3, options.context = 4, options.horizon = 2;
  return options;
}

// The targets of a part, standardised.
std::multiset<float> Targets(const SeriesBatches& batches, const std::vector<SeriesWindow>& windows) {
  std::multiset<float> targets;
  batches.ForEach(windows, [&](const SeriesBatch& batch) { targets.insert(batch.values.begin(), batch.values.end()); });
  return targets;
}

TEST(SeriesBatchesTest, AFifthValidatesAndAFifthTestsAlwaysTheSame) {
  const SeriesData data = Counting(20, 4);
  const SeriesBatches batches(data, Plain());
  EXPECT_EQ(batches.training_count(), 12);
  EXPECT_EQ(batches.validation_count(), 4);
  EXPECT_EQ(batches.test_count(), 4);
  const std::multiset<float> validation = Targets(batches, batches.validation_windows());
  const std::multiset<float> test = Targets(batches, batches.test_windows());
  std::set<float> held(validation.begin(), validation.end());
  held.insert(test.begin(), test.end());
  EXPECT_EQ(held.size(), 8u) << "no sequence is in two parts";
  Random random(1);
  for (int i = 0; i < 50; ++i) {
    for (const float value : batches.Draw(random).values) EXPECT_FALSE(held.contains(value)) << "drawn to train";
  }
}

TEST(SeriesBatchesTest, StandardisesByTheTrainingPartAlone) {
  SeriesData data = Counting(20, 4);
  const auto first_features = [](const SeriesBatches& batches) {
    std::vector<double> features;
    const auto take = [&](const SeriesBatch& b) {
      for (int64_t row = 0; row < b.rows; ++row) features.push_back(b.features[row * b.steps]);
    };
    batches.ForEach(batches.validation_windows(), take);
    batches.ForEach(batches.test_windows(), take);
    return features;
  };
  const SeriesBatches before(data, Plain());
  Random random(3);
  const SeriesBatch drawn = before.Draw(random);
  const std::vector<double> expected = first_features(before);
  int64_t unmoved = 0;
  for (SeriesSequence& sequence : data.sequences) {
    SeriesData changed = data;
    changed.sequences[std::stoll(sequence.id)].features[0] += 1000;
    const SeriesBatches after(changed, Plain());
    Random same(3);
    const bool moved = after.Draw(same).features != drawn.features;
    const std::vector<double> found = first_features(after);
    int64_t different = 0;
    for (std::size_t i = 0; i < found.size(); ++i) different += found[i] != expected[i] ? 1 : 0;
    // A sequence of another part changes itself alone; a training sequence changes the scale of everything.
    EXPECT_TRUE(moved ? different == 8 : different == 1) << sequence.id << " " << different;
    unmoved += moved ? 0 : 1;
  }
  EXPECT_EQ(unmoved, 8) << "the scale looks at the training part alone";
}

TEST(SeriesBatchesTest, WhatNeverChangesStaysNearZero) {
  SeriesData data;
  data.name = "constants", data.goal = "regression", data.target = "y";
  data.features = {"constant", "rounded", "tiny"};
  constexpr int64_t kSteps = 300000;  // a plain sum of so many is off by more than their rounding
  for (int64_t s = 0; s < 5; ++s) {
    SeriesSequence one{std::to_string(s), kSteps, {}, {}, {static_cast<double>(s)}};
    for (int64_t i = 0; i < kSteps; ++i) {
      const double sign = i % 2 == 0 ? 1 : -1;
      one.features.insert(one.features.end(), {0.1, i % 2 == 0 ? 0.3 : 0.1 + 0.2, 1e-20 * sign});
    }
    data.sequences.push_back(one);
  }
  const SeriesBatches batches(data, Plain());
  batches.ForEach(batches.validation_windows(), [](const SeriesBatch& batch) {
    for (std::size_t i = 0; i < batch.features.size(); i += 3) {
      ASSERT_LT(std::abs(batch.features[i]), 1e-6);
      ASSERT_LT(std::abs(batch.features[i + 1]), 1e-6);
      ASSERT_NEAR(std::abs(batch.features[i + 2]), 1, 1e-6) << "small units are no rounding";
    }
  });
}

TEST(SeriesBatchesTest, PadsShorterSequencesBehindTheirEnd) {
  const SeriesData data = Counting(20, 4);
  const SeriesBatches batches(data, Plain());
  Random random(2);
  bool padded = false;
  for (int i = 0; i < 20; ++i) {
    const SeriesBatch batch = batches.Draw(random);
    for (int64_t row = 0; row < batch.rows; ++row) {
      EXPECT_EQ(batch.scored[row], row);
      for (int64_t step = batch.lengths[row]; step < batch.steps; ++step) {
        padded = true;
        EXPECT_EQ(batch.features[row * batch.steps + step], 0);
      }
    }
  }
  EXPECT_TRUE(padded);
}

// Squares: the difference of two tells where they stand, (i + 1)^2 - i^2 = 2i + 1.
SeriesData Squares(int64_t steps) {
  SeriesData data;
  data.name = "squares", data.goal = "forecast", data.features = {"y"}, data.target = "y", data.each_step = true;
  SeriesSequence one{"all", steps, {}, {}, {}};
  for (int64_t i = 0; i < steps; ++i) one.targets.push_back(static_cast<double>(i * i));
  one.features = one.targets;
  data.sequences.push_back(one);
  return data;
}

TEST(SeriesBatchesTest, AForecastTrainsThenValidatesThenTests) {
  const SeriesData data = Squares(50);
  const SeriesBatches batches(data, Plain());
  EXPECT_EQ(batches.training_count(), 30 - 4 - 2 + 1);
  const double unit = batches.form().target_scale;
  double squares = 0;
  for (int64_t step = 0; step < 28; ++step) squares += std::pow(static_cast<double>((step + 2) * (step + 2) - step * step), 2);
  EXPECT_NEAR(unit, std::sqrt(squares / 28), 1e-9) << "the typical change over the horizon, in the training part";
  const auto first_foretold = [&](const SeriesBatch& batch, std::size_t v) { return (batch.values[v] * unit - 1) / 2 + 1; };
  Random random(4);
  double latest = 0;
  for (int i = 0; i < 100; ++i) {
    const SeriesBatch batch = batches.Draw(random);
    for (std::size_t v = 0; v < batch.values.size(); v += 2) latest = std::max(latest, first_foretold(batch, v) + 1);
  }
  EXPECT_NEAR(latest, 29, 1e-3) << "the last value that training foretells";
  const auto check = [&](const std::vector<SeriesWindow>& windows, double begin) {
    ASSERT_EQ(windows.size(), 9u) << "all foretold values lie in the part";
    batches.ForEach(windows, [&](const SeriesBatch& batch) {
      ASSERT_EQ(batch.scored.size(), 9u) << "the last step of each window alone";
      EXPECT_EQ(batch.scored.front(), 3);
      for (std::size_t w = 0; w < 9; ++w) EXPECT_NEAR(first_foretold(batch, 2 * w), begin + static_cast<double>(w), 1e-3);
    });
  };
  check(batches.validation_windows(), 30);
  check(batches.test_windows(), 40);
  squares = 0;  // the last value errs by these differences
  for (int64_t last = 39; last <= 47; ++last) {
    for (int64_t h = 1; h <= 2; ++h) squares += std::pow(static_cast<double>((last + h) * (last + h) - last * last), 2);
  }
  EXPECT_NEAR(SimpleAnswer(batches).loss, squares / 18, 1e-2);
  squares = 0;
  for (int64_t last = 29; last <= 37; ++last) {
    for (int64_t h = 1; h <= 2; ++h) squares += std::pow(static_cast<double>((last + h) * (last + h) - last * last), 2);
  }
  EXPECT_NEAR(SimpleAnswer(batches).validation, squares / 18, 1e-2);
  EXPECT_EQ(SimpleAnswer(batches).name, "last value");
}

TEST(SeriesBatchesTest, AForecastSeesChangesAndNoLevels) {
  SeriesData data = Squares(50);
  const auto features = [](const SeriesData& some) {
    const SeriesBatches batches(some, Plain());
    return batches.Make(batches.test_windows()).features;
  };
  const std::vector<float> before = features(data);
  double squares = 0;
  for (int64_t step = 1; step < 30; ++step) squares += std::pow(static_cast<double>(2 * step - 1), 2);
  const double typical = std::sqrt(squares / 29);
  EXPECT_NEAR(before.front(), (36 * 36 - 35 * 35) / typical, 1e-5) << "the window begins at step 36";
  EXPECT_NEAR(before[1], (37 * 37 - 36 * 36) / typical, 1e-5);
  for (double& value : data.sequences[0].features) value += 4096;
  EXPECT_EQ(features(data), before);
}

TEST(SeriesBatchesTest, TimesAreInTypicalStepsFromTheFirst) {
  SeriesData data = Counting(10, 3);
  data.has_times = true;
  for (SeriesSequence& sequence : data.sequences) {
    for (int64_t i = 0; i < sequence.steps; ++i) sequence.times.push_back(100 + 0.5 * static_cast<double>(i));
  }
  const SeriesBatches batches(data, Plain());
  EXPECT_EQ(batches.form().width(), 2);
  Random random(1);
  const SeriesBatch batch = batches.Draw(random);
  for (int64_t step = 0; step < 3; ++step) EXPECT_DOUBLE_EQ(batch.times[step], static_cast<double>(step));
  EXPECT_EQ(batch.features[1], 0) << "the logarithm of one typical step";
}

TEST(SeriesBatchesTest, TheCommonestClassOfTheTrainingPartStandsBeside) {
  SeriesData data = Counting(20, 3);
  data.goal = "classification", data.classes = {"a", "b"};
  for (std::size_t s = 0; s < 20; ++s) data.sequences[s].targets = {s < 4 ? 1.0 : 0.0};
  const SeriesBatches batches(data, Plain());
  // A fifth of 16 is 3, of 4 it is 1; two such parts are held out. One more than counted.
  const double commonest = 16 - 6 + 1, rare = 4 - 2 + 1;
  EXPECT_DOUBLE_EQ(SimpleAnswer(batches).accuracy, 0.75);
  EXPECT_NEAR(SimpleAnswer(batches).loss, -(3 * std::log(commonest / 14) + std::log(rare / 14)) / 4, 1e-12);
}

TEST(SeriesBatchesTest, TooFewDataAreRefused) {
  const SeriesData one = Counting(1, 4);
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { SeriesBatches(one, Plain()); }), "at least 3"));
  SeriesData forecast = Counting(3, 5);
  forecast.goal = "forecast", forecast.each_step = true;
  for (SeriesSequence& sequence : forecast.sequences) sequence.targets = sequence.features;
  EXPECT_TRUE(Holds(WhatOf<Error>([&] { SeriesBatches(forecast, Plain()); }), "context: windows of 4 steps and 2"));
}

}  // namespace
}  // namespace heed::lab
