#include "lab/runs/measurements.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

const Measure kLoss = {.name = "loss", .label = "Loss", .phrase = "{} nats"};
const Measure kAccuracy = {.name = "accuracy", .label = "Accuracy", .phrase = "an accuracy of {}", .more_is_better = true};

SizedContender Model(const std::string& encoder, const std::string& position = "none") {
  return {{encoder, position}, 64, 1000};
}

// Two lengths of the loss and the accuracy, which is 1 - loss / 10; by model the loss by seed, 1 more at the second length.
Measurements Lost(const Models& models, const std::vector<std::vector<double>>& losses) {
  Measurements measured("part", {{kLoss, 8}, {kLoss, 16}, {kAccuracy}}, models, 5, std::ssize(losses.front()));
  for (std::size_t m = 0; m < losses.size(); ++m) {
    for (std::size_t s = 0; s < losses[m].size(); ++s) {
      const double loss = losses[m][s];
      measured.Put(m, s, {{loss, loss + 1, 1 - loss / 10}});
    }
  }
  return measured;
}

TEST(MeasurementsTest, GapsAreTakenSeedBySeedTowardsTheWorse) {
  const Models models = {Model("gru"), Model("rnn")};
  const Measurements measured = Lost(models, {{2.0, 3.0}, {2.5, 3.25}});
  const Spread gap = measured.Gap(models[0], models[1], {kLoss, 8});
  EXPECT_DOUBLE_EQ(gap.mean, 0.375);
  EXPECT_DOUBLE_EQ(gap.low, 0.25);
  EXPECT_DOUBLE_EQ(gap.high, 0.5);
  EXPECT_NEAR(measured.Gap(models[0], models[1], {kAccuracy}).mean, 0.0375, 1e-15) << "less accuracy is worse";
  EXPECT_DOUBLE_EQ(measured.Gap(models[1], models[0], {kLoss, 8}).mean, -0.375);
}

TEST(MeasurementsTest, RanksWhatReachesAColumn) {
  const Models models = {Model("attention", "alibi"), Model("attention", "learned"), Model("gru")};
  Measurements measured = Lost(models, {{2.5}, {2.0}, {2.2}});
  measured.Put(1, 0, {{2.0, NAN, 0.8}});
  EXPECT_EQ(measured.Ranked({kLoss, 8}).front().position, "learned");
  EXPECT_EQ(measured.Ranked({kAccuracy}).front().position, "learned") << "more is better";
  EXPECT_EQ(measured.Ranked({kLoss, 16}).size(), 2U);
  EXPECT_EQ(measured.Ranked({kLoss, 16}).front().encoder, "gru");
  EXPECT_EQ(measured.Ranked({kLoss, 8}, Attending(models)).size(), 2U);
  ASSERT_EQ(measured.OnePerEncoder({kLoss, 8}).size(), 2U);
  EXPECT_EQ(measured.OnePerEncoder({kLoss, 8}).front().position, "learned");
  EXPECT_EQ(measured.OnePerEncoder({kLoss, 16}).front().position, "alibi");
}

TEST(MeasurementsTest, OneSeedThatDoesNotReachIsEnoughNotTo) {
  const Models models = {Model("gru")};
  Measurements measured = Lost(models, {{2.0, 3.0}});
  EXPECT_TRUE(measured.Reaches(models[0], {kLoss, 8}));
  measured.Put(0, 1, {{NAN, 1, 1}});
  EXPECT_FALSE(measured.Reaches(models[0], {kLoss, 8}));
  EXPECT_TRUE(measured.Ranked({kLoss, 8}).empty());
  EXPECT_TRUE(Measurements("p", {{kLoss}}, models, 0, 1).Ranked({kLoss}).empty()) << "nothing is measured yet";
}

TEST(MeasurementsTest, RefusesWhatIsNotThere) {
  const Models models = {Model("gru")};
  Measurements measured = Lost(models, {{2.0}});
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { measured.Put(0, 0, {{1.0, 2.0}}); }), "2 values for 3 columns"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { measured.Values(Model("rnn"), {kLoss, 8}); }), "'rnn'"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { measured.Values(models[0], {kLoss, 9}); }), "'loss'"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { measured.ColumnOf("loss", 9); }), "'loss' at 9"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { measured.ColumnOf("speed"); }), "'speed'"));
  EXPECT_EQ(measured.ColumnOf("loss").at, 8) << "the first";
}

TEST(MeasurementsTest, JsonHoldsSpreadsAndRuns) {
  Measurements measured = Lost({Model("gru")}, {{2.0, 3.0}});
  measured.Put(0, 1, {{3.0, NAN, 0.5}});
  const nlohmann::ordered_json json = measured.Json().at(0);
  EXPECT_EQ(json["model"], "gru");
  EXPECT_EQ(json["parameters"], 1000);
  EXPECT_EQ(json["loss"]["8"].dump(), R"({"mean":2.5,"low":2.0,"high":3.0})");
  EXPECT_TRUE(json["loss"]["16"].is_null());
  EXPECT_EQ(json["accuracy"]["low"], 0.5) << "one place needs no name";
  ASSERT_EQ(json["runs"].size(), 2U);
  EXPECT_EQ(json["runs"][1].dump(), R"({"seed":6,"loss":{"8":3.0,"16":null},"accuracy":0.5})");
  EXPECT_FALSE(measured.Json({"loss"}).at(0).contains("loss"));
}

TEST(MeasurementsTest, CsvHasALineANumber) {
  Measurements measured = Lost({Model("attention", "alibi")}, {{0.1}});
  measured.Put(0, 0, {{0.1, NAN, 1.0}});
  EXPECT_EQ(MeasurementsCsv("task", "steps", {&measured}),
            "task,model,encoder,position,ffn_width,parameters,seed,measure,steps,value\n"
            "part,attention-alibi,attention,alibi,64,1000,5,loss,8,0.1\n"
            "part,attention-alibi,attention,alibi,64,1000,5,loss,16,n/a\n"
            "part,attention-alibi,attention,alibi,64,1000,5,accuracy,,1\n");
  const std::string bare = MeasurementsCsv("", "", {&measured});
  EXPECT_EQ(bare.substr(0, bare.find('\n')), "model,encoder,position,ffn_width,parameters,seed,measure,value");
}

TEST(RankingFindingTest, SaysWhoWinsByHowMuchAndWhetherSeedsAgree) {
  const Models models = {Model("gru"), Model("lstm")};
  const auto finding = [&](const std::vector<std::vector<double>>& losses) {
    return RankingFinding(Lost(models, losses), {{kLoss, 8}}, models);
  };
  const std::string clear = finding({{2.5, 2.75}, {2.0, 2.25}});
  EXPECT_TRUE(Holds(clear, "The LSTM is best with 2.125 (2.000 to 2.250) nats over 2 seeds")) << clear;
  EXPECT_TRUE(Holds(clear, "the GRU follows 0.500 behind (0.500 to 0.500 seed by seed)")) << clear;
  const std::string tie = finding({{2.0, 2.5}, {2.5, 2.25}});
  EXPECT_TRUE(Holds(tie, "the LSTM cannot be told apart from it: 0.125 behind on average, but -0.250 to 0.500 seed by seed"))
      << tie;
  EXPECT_TRUE(Holds(finding({{2.0}, {2.5}}), "with one seed each"));
  EXPECT_TRUE(Holds(finding({{2.0, 2.5}, {2.0, 2.5}}), "the LSTM does exactly as well"));
  EXPECT_EQ(RankingFinding(Lost(models, {{2.0}, {2.5}}), {{kLoss, 8}}, {models[0]}), "");
}

TEST(RankingFindingTest, DescribesByAllColumnsAndNamesTheLast) {
  const Models models = {Model("gru"), Model("lstm"), Model("rnn")};
  const std::string text = RankingFinding(Lost(models, {{1.0}, {2.0}, {4.0}}), {{kLoss, 8}, {kAccuracy}}, models);
  EXPECT_TRUE(Holds(text, "The GRU is best with 1.000 nats and an accuracy of 0.900 over one seed")) << text;
  EXPECT_TRUE(Holds(text, "Of these 3, the RNN is last with 4.000 nats and an accuracy of 0.600, 3.000 behind.")) << text;
}

}  // namespace
}  // namespace heed::lab
