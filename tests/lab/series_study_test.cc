#include "lab/series/series.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "lab/runs/contest_page.h"
#include "lab/series/findings.h"
#include "lab/series/run.h"
#include "lab/training/sequence_model.h"
#include "lab/training/timed_attention.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// Two classes: a spike before a dip, and a dip before a spike, at random places of sequences of 8 to 12 steps. Their means are
// the same, so only order tells them apart.
SeriesData Spikes(int64_t count) {
  SeriesData data;
  data.name = "spikes", data.fingerprint = "0", data.goal = SeriesGoal::kClassification;
  data.features = {"x"}, data.target = "kind", data.classes = {"dip first", "spike first"};
  Random random(5);
  for (int64_t s = 0; s < count; ++s) {
    const int64_t steps = 8 + static_cast<int64_t>(random.Below(5)), kind = s % 2;
    SeriesSequence one{std::to_string(s), steps, std::vector<double>(steps, 0.0), {}, {static_cast<double>(kind)}};
    const int64_t first = static_cast<int64_t>(random.Below(steps - 1));
    const int64_t second = first + 1 + static_cast<int64_t>(random.Below(steps - first - 1));
    one.features[first] = kind == 1 ? 1 : -1, one.features[second] = -one.features[first];
    data.sequences.push_back(one);
  }
  return data;
}

// The next value is minus the last but one: the sum of two waves of four steps.
SeriesData Wave(int64_t steps) {
  SeriesData data;
  data.name = "wave", data.fingerprint = "1", data.goal = SeriesGoal::kForecast, data.each_step = true;
  data.features = {"y"}, data.target = "y";
  SeriesSequence one{"all", steps, {}, {}, {}};
  for (int64_t i = 0; i < steps; ++i) one.targets.push_back(3 * std::sin(M_PI / 2 * static_cast<double>(i)) + 100);
  one.features = one.targets;
  data.sequences.push_back(one);
  return data;
}

SeriesOptions Small(std::vector<std::string> encoders, std::vector<std::string> positions = {"none"}) {
  SeriesOptions options = SeriesBudget("quick");
  options.encoders = std::move(encoders), options.positions = std::move(positions);
  options.width = 16, options.heads = 2, options.seeds = 1, options.context = 6;
  options.all_steps = 150;
  return options;
}

TEST(TimedAttentionTest, WholeTimesGiveTheEncoderItself) {
  torch::manual_seed(1);
  const at::Tensor X = at::randn({2, 7, 16});
  const at::Tensor times = at::arange(7, at::kDouble).expand({2, 7}).contiguous();
  const at::Tensor lengths = at::tensor({7, 4}, at::kLong);
  for (const std::string& name : nn::PositionSchemeNames()) {
    for (const bool causal : {false, true}) {
      if (name == "xpos" && !causal) continue;
      nn::PositionOptions position;
      position.scheme = nn::ParsePositionScheme(name);
      nn::AttentionEncoderImpl encoder(
          nn::EncoderOptions(16).layers(2).ffn_width(8).heads(2).causal(causal).bias(true).position(position));
      const at::Tensor expected = encoder.forward(X, lengths), found = EncodeAt(encoder, X, times, lengths);
      EXPECT_LT((expected - found).abs().max().item<double>(), 1e-5) << name << (causal ? ", causal" : "");
    }
  }
}

TEST(TimedAttentionTest, SchemesOfDistanceSeeTimesAndNotTheirStart) {
  torch::manual_seed(2);
  const at::Tensor X = at::randn({1, 5, 16});
  const at::Tensor times = at::tensor({0.0, 0.3, 2.0, 2.25, 7.5}, at::kDouble).unsqueeze(0);
  for (const char* name : {"rotary", "alibi"}) {
    nn::PositionOptions position;
    position.scheme = nn::ParsePositionScheme(name);
    nn::AttentionEncoderImpl encoder(nn::EncoderOptions(16).heads(2).position(position));
    const at::Tensor here = EncodeAt(encoder, X, times), later = EncodeAt(encoder, X, times + 64.0);
    EXPECT_LT((here - later).abs().max().item<double>(), 1e-4) << name;
    EXPECT_GT((here - encoder.forward(X)).abs().max().item<double>(), 1e-3) << name << " looks at the times";
  }
}

TEST(SequenceModelTest, PaddingDoesNotMatter) {
  torch::manual_seed(3);
  for (const char* encoder : {"attention", "gru", "convolution"}) {
    SequenceModelOptions options;
    options.encoder = encoder, options.features = 3, options.outputs = 2, options.pooled = true, options.width = 16;
    SequenceModel model(options);
    at::Tensor X = at::randn({2, 6, 3});
    const at::Tensor lengths = at::tensor({6, 4}, at::kLong), before = model->forward(X, lengths);
    X.select(0, 1).narrow(0, 4, 2).fill_(1000.0);
    EXPECT_LT((before - model->forward(X, lengths)).abs().max().item<double>(), 1e-5) << encoder;
    const at::Tensor alone = model->forward(X.narrow(0, 1, 1).narrow(1, 0, 4));
    EXPECT_LT((before[1] - alone[0]).abs().max().item<double>(), 1e-5) << encoder;
  }
}

TEST(SeriesTest, OrderIsNeededWhereOnlyOrderTellsClassesApart) {
  const ScratchFolder folder;
  SeriesOptions options = Small({"attention", "gru"}, {"none", "sinusoidal"});
  options.all_steps = 250;
  const SeriesResult result = RunSeries(Spikes(240), options, folder.path());
  const Models& models = result.scores().models();
  ASSERT_EQ(models.size(), 3u);
  const auto accuracy = [&](const Contender& model) {
    return result.scores().Over(model, result.scores().ColumnOf("accuracy")).mean;
  };
  EXPECT_LE(accuracy(models[0]), 0.75) << "attention without positions";
  EXPECT_GE(accuracy(models[1]), 0.9) << "with sinusoidal positions";
  EXPECT_GE(accuracy(models[2]), 0.9) << "GRU";
  EXPECT_TRUE(Holds(SchemeFinding(result.contest), "Attention with sinusoidal positions leads"))
      << SchemeFinding(result.contest);
}

TEST(SeriesTest, AForecastBeatsTheLastValueOfAWave) {
  const ScratchFolder folder;
  const SeriesResult result = RunSeries(Wave(200), Small({"gru"}), folder.path());
  ASSERT_EQ(result.baselines.size(), 4u);
  EXPECT_NEAR(result.baselines[0].loss, 9, 0.5) << "(3 sin)^2 changes by 3 from step to step";
  EXPECT_EQ(result.baselines[1].Label(), "last season (4 steps)");
  EXPECT_LE(result.baselines[1].loss, 1e-20);
  EXPECT_LE(result.baselines[2].loss, 1e-6) << "minus the last value but one is linear in the window";
  EXPECT_LE(result.scores().Over(result.scores().models().front(), result.loss()).mean, 0.5);
  const std::string worth = SeriesWorthFinding(result);
  EXPECT_EQ(worth.find("A model is not worth it: the best, the GRU, has a mean squared error of "), 0u) << worth;
}

TEST(SeriesTest, WhatIsReportedIsMeasuredOnTheTestPart) {
  SeriesData data = Wave(200);
  Random random(6);
  std::vector<double>& targets = data.sequences[0].targets;
  for (std::size_t i = 161; i < targets.size(); ++i) targets[i] = 1000 * random.Uniform();  // no method foretells these
  data.sequences[0].features = targets;
  const ScratchFolder folder;
  SeriesOptions options = Small({"gru"});
  options.all_steps = 2;
  const SeriesResult result = RunSeries(data, options, folder.path());
  EXPECT_GT(result.scores().Over(result.scores().models().front(), result.loss()).mean, 1e4);
  for (const SeriesBaseline& baseline : result.baselines) EXPECT_GT(baseline.loss, 1e4) << baseline.name;
}

TEST(SeriesTest, BlocksHoldTheWholeTestPartInOrder) {
  const SeriesData data = Wave(500);
  const SeriesBatches batches(data, Small({"gru"}));
  const std::vector<std::vector<SeriesWindow>> blocks = TestBlocks(batches);
  EXPECT_EQ(blocks.size(), 32u);
  std::size_t next = 0;
  for (const std::vector<SeriesWindow>& block : blocks) {
    for (const SeriesWindow& window : block) EXPECT_EQ(window.first, batches.test_windows()[next++].first);
  }
  EXPECT_EQ(next, batches.test_windows().size());
  SeriesOptions options = Small({"gru"});
  options.all_steps = 1;
  const ScratchFolder folder;
  const SeriesResult result = RunSeries(data, options, folder.path());
  const Contender& gru = result.scores().models().front();
  const std::vector<double> losses = BlockLosses(result.scores(), gru).front();
  double weighted = 0, answers = 0;
  for (std::size_t b = 0; b < losses.size(); ++b) {
    EXPECT_EQ(result.contest.weights[b], static_cast<double>(blocks[b].size())) << "one value foretold a window";
    weighted += result.contest.weights[b] * losses[b], answers += result.contest.weights[b];
  }
  EXPECT_NEAR(weighted / answers, result.scores().Over(gru, result.loss()).mean, 1e-9);
}

TEST(SeriesTest, LossesHaveOneUnit) {
  const ScratchFolder folder, eightfold_folder;
  SeriesOptions options = Small({"gru"});
  options.all_steps = 1, options.rates = {1e-9};
  SeriesData data = Wave(200);
  const auto losses = [&](const SeriesData& some, const ScratchFolder& place) {
    const SeriesResult result = RunSeries(some, options, place.path());
    const auto of = [&](const char* measure) {
      return result.scores().Over(result.scores().models().front(), result.scores().ColumnOf(measure)).mean;
    };
    return std::pair(of("loss"), of("training_loss"));
  };
  const auto [loss, training] = losses(data, folder);
  // Both are those of an untrained model, on waves that are the same in all parts.
  EXPECT_NEAR(std::log2(training / loss), 0, 2) << "standardised, it would be a ninth, and log2(9) = 3.2";
  for (SeriesSequence& sequence : data.sequences) {
    for (double& value : sequence.targets) value *= 8;
    sequence.features = sequence.targets;
  }
  const auto [eightfold, training_eightfold] = losses(data, eightfold_folder);
  EXPECT_NEAR(eightfold / loss, 64, 1e-3);
  EXPECT_NEAR(training_eightfold / training, 64, 1e-3);
}

TEST(SeriesTest, FinishedRunsAreKeptForTheSameData) {
  const ScratchFolder folder;
  SeriesOptions options = Small({"convolution"});
  options.all_steps = 2;
  SeriesData data = Spikes(20);
  const std::string models = RunSeries(data, options, folder.path()).scores().Json().dump();
  const auto file = folder.path() / "runs" / "classification-convolution-seed-0.json";
  const auto written = std::filesystem::last_write_time(file);
  EXPECT_EQ(RunSeries(data, options, folder.path()).scores().Json().dump(), models);
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  data.fingerprint = "another";
  RunSeries(data, options, folder.path());
  EXPECT_NE(std::filesystem::last_write_time(file), written) << "other data are another run";
}

// Three models with two seeds each, beside these baselines.
SeriesResult ResultOf(std::vector<SeriesBaseline> baselines, double best = 1.0, double second = 1.5) {
  const Models models = {{{"gru", "none"}, 8, 100}, {{"rnn", "none"}, 8, 100}, {{"lstm", "none"}, 8, 100}};
  ContestResult contest{
      {3e-3}, {}, Measurements("regression", SeriesMeasures(SeriesGoal::kRegression), models, 0, 2), {}, {}, {}, 10, {1, 1}};
  const double losses[][2] = {{best, second}, {1.5, 2.5}, {2.5, 3.0}};
  for (std::size_t m = 0; m < models.size(); ++m) {
    contest.entries.push_back({.model = models[m], .steps = 10, .rate = 3e-3, .tried = {}, .curve = {}});
    for (std::size_t s = 0; s < 2; ++s) {
      const double loss = losses[m][s];
      contest.at_time.Put(m, s, {{loss, 0, 0}, {{"blocks", {loss - 0.1, loss + 0.1}}}});
    }
  }
  contest.verdict = JudgeSome(contest, [&](const Entry& entry) { return BlockLosses(contest.at_time, entry.model); });
  SeriesResult result{{}, {}, {}, std::move(baselines), std::move(contest)};
  result.data.goal = SeriesGoal::kRegression;
  return result;
}

SeriesBaseline Simple(const std::string& name, double loss, bool looks) {
  return {.name = name, .setting = {}, .limits = {}, .loss = loss, .accuracy = 0, .looks = looks};
}

TEST(SeriesFindingsTest, SaysWhetherAModelIsWorthIt) {
  const std::string gru = "the best, the GRU, has a mean squared error of 1.25 (1 to 1.5), ";
  const auto worth = [](double regression, double mean) {
    return SeriesWorthFinding(ResultOf({Simple("mean", mean, false), Simple("ridge regression", regression, true)}));
  };
  EXPECT_EQ(worth(2.5, 4), "A model is worth it: " + gru +
                               "0.5 times as much as ridge regression, the best without a model, with a mean squared error of "
                               "2.5.");
  EXPECT_EQ(worth(0.5, 4).find("A model is not worth it: " + gru + "2.5 times as much as ridge regression,"), 0u)
      << worth(0.5, 4);
  EXPECT_EQ(worth(1.3, 4).find("A model is hardly worth it, ridge regression will do as well: " + gru), 0u)
      << "seeds are on both sides: " << worth(1.3, 4);
  EXPECT_EQ(worth(1.1, 4).find("A model is hardly worth it"), 0u) << worth(1.1, 4);
  EXPECT_EQ(worth(0.99, 4).find("A model is not worth it"), 0u) << worth(0.99, 4);
  const std::string close = SeriesWorthFinding(ResultOf({Simple("ridge regression", 1.05, true)}, 1.0, 1.02));
  EXPECT_EQ(close.find("A model is hardly worth it"), 0u) << "less by four of a hundred: " << close;
  const std::string nothing = worth(4, 0.25);
  EXPECT_EQ(nothing.find("Nothing beats the mean: " + gru + "5 times as much as the mean, the best without a model"), 0u)
      << nothing;
  EXPECT_TRUE(Holds(nothing, "That tells of these models and methods, not of what can be foretold.")) << nothing;
  EXPECT_EQ(worth(4, 1.3).find("Nothing clearly beats the mean: " + gru), 0u) << worth(4, 1.3);
  EXPECT_FALSE(Holds(worth(4, 2.5), "That tells of")) << worth(4, 2.5);
  const SeriesResult result = ResultOf({Simple("mean", 4, false)});
  const std::string models = TimeFinding(result.contest, result.options.seconds);
  EXPECT_TRUE(Holds(models, "After 10 steps each: The GRU leads with a mean squared error of 1.25")) << models;
  EXPECT_TRUE(Holds(models, "The RNN (0.75 behind) and the LSTM (1.5 behind) cannot be told apart")) << models;
  EXPECT_EQ(SchemeFinding(ResultOf({Simple("mean", 4, false)}).contest), "");
}

TEST(SeriesFindingsTest, IsItWorthAModelIsAskedFirst) {
  SeriesResult result = ResultOf({Simple("mean", 4, false)});
  EXPECT_EQ(SeriesConclusion(result).front().question, "Is it worth a model?");
  EXPECT_EQ(SeriesConclusion(result).size(), 3u) << "no attention, no curve, no rates, no column that leaves its range";
  result.data.left = {{"x", 1, 2, 0.5, 12.25, 0.25}};
  EXPECT_EQ(
      SeriesConclusion(result).back().answer,
      "The test part leaves the range of the training part: x (1 to 2 there, 0.5 to 12.25 in the test part, 25 % of whose "
      "values lie outside).");
}

}  // namespace
}  // namespace heed::lab
