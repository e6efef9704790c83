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

TEST(MeasurementsTest, RanksWhatReachesAColumn) {
  const Models models = {Model("attention", "alibi"), Model("attention", "learned"), Model("gru")};
  Measurements measured = Lost(models, {{2.5}, {2.0}, {2.2}});
  measured.Put(1, 0, {{2.0, NAN, 0.8}});
  EXPECT_EQ(measured.Ranked({kLoss, 8}).front().position, "learned");
  EXPECT_EQ(measured.Ranked({kAccuracy}).front().position, "learned") << "more is better";
  EXPECT_EQ(measured.Ranked({kLoss, 16}).size(), 2U);
  EXPECT_EQ(measured.Ranked({kLoss, 16}).front().encoder, "gru");
  EXPECT_EQ(measured.Ranked({kLoss, 8}, Attending(models)).size(), 2U);
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

}  // namespace
}  // namespace heed::lab
