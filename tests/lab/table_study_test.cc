#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "lab/report/file.h"
#include "lab/runs/contest_page.h"
#include "lab/series/batches.h"
#include "lab/series/data.h"
#include "lab/study/study.h"
#include "lab/training/sequence_model.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// Two classes: a spike before a dip, and a dip before a spike, at random places of sequences of 8 to 12 steps. Their means are
// the same, so only order tells them apart.
SeriesData Spikes(int64_t count) {
  SeriesData data;
  data.name = "spikes", data.fingerprint = "0", data.goal = "classification";
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
  data.name = "wave", data.fingerprint = "1", data.goal = "forecast", data.each_step = true;
  data.features = {"y"}, data.target = "y";
  SeriesSequence one{"all", steps, {}, {}, {}};
  for (int64_t i = 0; i < steps; ++i) one.targets.push_back(3 * std::sin(M_PI / 2 * static_cast<double>(i)) + 100);
  one.features = one.targets;
  data.sequences.push_back(one);
  return data;
}

StudyOptions Small(std::vector<std::string> encoders, std::vector<std::string> positions = {"none"}) {
  StudyOptions options = BudgetOptions("quick", StudyKind::kTable);
  options.encoders = std::move(encoders), options.positions = std::move(positions);
  options.width = 16, options.heads = 2, options.seeds = 1, options.context = 6;
  options.all_steps = 150;
  return options;
}

StudyResult Study(const SeriesData& data, const StudyOptions& options, const ScratchFolder& folder) {
  return RunStudy(SubjectOf(data, "data.csv --target y", options), options, folder.path());
}

const Measurements& Scores(const StudyResult& result) { return result.tasks.front().contest.at_time; }

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

TEST(TableStudyTest, OrderIsNeededWhereOnlyOrderTellsClassesApart) {
  const ScratchFolder folder;
  StudyOptions options = Small({"attention", "gru"}, {"none", "sinusoidal"});
  options.all_steps = 250;
  const SeriesData data = Spikes(240);
  const StudyResult result = Study(data, options, folder);
  const Models& models = Scores(result).models();
  ASSERT_EQ(models.size(), 3u);
  const auto accuracy = [&](const Contender& model) {
    return Scores(result).Over(model, Scores(result).ColumnOf("accuracy")).mean;
  };
  EXPECT_LE(accuracy(models[0]), 0.75) << "attention without positions";
  EXPECT_GE(accuracy(models[1]), 0.9) << "with sinusoidal positions";
  EXPECT_GE(accuracy(models[2]), 0.9) << "GRU";
  EXPECT_TRUE(Holds(SchemeFinding(result.tasks.front().contest), "Attention with sinusoidal positions leads"))
      << SchemeFinding(result.tasks.front().contest);
}

TEST(TableStudyTest, AForecastBeatsTheLastValueOfAWave) {
  const ScratchFolder folder;
  const SeriesData data = Wave(200);
  const StudyResult result = Study(data, Small({"gru"}), folder);
  ASSERT_EQ(result.tasks.front().baselines.size(), 5u);
  EXPECT_NEAR(result.tasks.front().baselines[0].loss, 9, 0.5) << "(3 sin)^2 changes by 3 from step to step";
  EXPECT_EQ(result.tasks.front().baselines[1].Label(), "last season (4 steps)");
  EXPECT_LE(result.tasks.front().baselines[1].loss, 1e-20);
  EXPECT_LE(result.tasks.front().baselines[3].loss, 1e-6) << "minus the last value but one is linear in the window";
  EXPECT_LE(Scores(result).Over(Scores(result).models().front(), Scores(result).ColumnOf("loss")).mean, 0.5);
  EXPECT_EQ(UseCommand(result), "heed predict " + (folder.path() / "model").string() + " NEW.csv");
}

TEST(TableStudyTest, WhatIsReportedIsMeasuredOnTheTestPart) {
  SeriesData data = Wave(200);
  Random random(6);
  std::vector<double>& targets = data.sequences[0].targets;
  for (std::size_t i = 161; i < targets.size(); ++i) targets[i] = 1000 * random.Uniform();  // no method foretells these
  data.sequences[0].features = targets;
  const ScratchFolder folder;
  StudyOptions options = Small({"gru"});
  options.all_steps = 2;
  const StudyResult result = Study(data, options, folder);
  EXPECT_GT(Scores(result).Over(Scores(result).models().front(), Scores(result).ColumnOf("loss")).mean, 1e4);
  for (const Baseline& baseline : result.tasks.front().baselines) EXPECT_GT(baseline.loss, 1e4) << baseline.name;
}

// Windows of different sequences share no step: each is a block.
TEST(TableStudyTest, SequencesWithOneWindowEachAreBlocks) {
  SeriesData data = Wave(7);
  for (const char* name : {"b", "c", "d", "e", "f"}) {
    data.sequences.push_back(data.sequences.front());
    data.sequences.back().id = name;
  }
  SeriesCut cut = CutOf(Small({"gru"}));
  cut.context = 2;
  const SeriesBatches batches(data, cut);
  ASSERT_EQ(batches.test_windows().size(), 6U);
  EXPECT_EQ(batches.TestBlocks().size(), 6U);
}

TEST(TableStudyTest, BlocksHoldTheWholeTestPartInOrder) {
  const SeriesData data = Wave(500);
  const SeriesBatches batches(data, CutOf(Small({"gru"})));
  const std::vector<std::vector<SeriesWindow>> blocks = batches.TestBlocks();
  EXPECT_EQ(blocks.size(), 12u);
  for (const std::vector<SeriesWindow>& block : blocks)
    EXPECT_GE(block.back().first - block.front().first + 1, 6 + 1) << "a window and what it foretells";
  std::size_t next = 0;
  for (const std::vector<SeriesWindow>& block : blocks) {
    for (const SeriesWindow& window : block) EXPECT_EQ(window.first, batches.test_windows()[next++].first);
  }
  EXPECT_EQ(next, batches.test_windows().size());
  StudyOptions options = Small({"gru"});
  options.all_steps = 1;
  const ScratchFolder folder;
  const StudyResult result = Study(data, options, folder);
  const Contender& gru = Scores(result).models().front();
  const std::vector<double> losses = Scores(result).BlockLosses(gru).front();
  double weighted = 0, answers = 0;
  for (std::size_t b = 0; b < losses.size(); ++b) {
    EXPECT_EQ(result.tasks.front().contest.weights[b], static_cast<double>(blocks[b].size())) << "one value foretold a window";
    weighted += result.tasks.front().contest.weights[b] * losses[b], answers += result.tasks.front().contest.weights[b];
  }
  EXPECT_NEAR(weighted / answers, Scores(result).Over(gru, Scores(result).ColumnOf("loss")).mean, 1e-9);
}

TEST(TableStudyTest, LossesHaveOneUnit) {
  const ScratchFolder folder, eightfold_folder;
  StudyOptions options = Small({"gru"});
  options.all_steps = 1, options.rates = {1e-9};
  SeriesData data = Wave(200);
  const auto losses = [&](const SeriesData& some, const ScratchFolder& place) {
    const StudyResult result = Study(some, options, place);
    const auto of = [&](const char* measure) {
      return Scores(result).Over(Scores(result).models().front(), Scores(result).ColumnOf(measure)).mean;
    };
    return std::pair(of("loss"), of("validation_loss"));
  };
  const auto [loss, validation] = losses(data, folder);
  // Both are those of an untrained model, on waves that are the same in all parts.
  EXPECT_NEAR(std::log2(validation / loss), 0, 2) << "standardised, it would be a ninth, and log2(9) = 3.2";
  for (SeriesSequence& sequence : data.sequences) {
    for (double& value : sequence.targets) value *= 8;
    sequence.features = sequence.targets;
  }
  const auto [eightfold, validation_eightfold] = losses(data, eightfold_folder);
  EXPECT_NEAR(eightfold / loss, 64, 1e-3);
  EXPECT_NEAR(validation_eightfold / validation, 64, 1e-3);
}

TEST(TableStudyTest, FinishedRunsAreKeptForTheSameData) {
  const ScratchFolder folder;
  StudyOptions options = Small({"convolution"});
  options.all_steps = 2;
  SeriesData data = Spikes(20);
  const std::string models = Scores(Study(data, options, folder)).Json().dump();
  const auto file = folder.path() / "runs" / "classification-convolution-seed-0.json";
  const auto written = std::filesystem::last_write_time(file);
  EXPECT_EQ(Scores(Study(data, options, folder)).Json().dump(), models);
  EXPECT_EQ(std::filesystem::last_write_time(file), written);
  data.fingerprint = "another";
  Study(data, options, folder);
  EXPECT_NE(std::filesystem::last_write_time(file), written) << "other data are another run";
}

TEST(TableStudyTest, TheFolderOfAnotherFilesStudyIsRefused) {
  const ScratchFolder folder;
  StudyOptions options = Small({"convolution"});
  options.all_steps = 2;
  const auto study = [&](const SeriesData& data) {
    WriteStudy(RunStudy(SubjectOf(data, "spikes.csv", options), options, folder.path()), {}, folder.path());
  };
  SeriesData data = Spikes(20);
  study(data);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "accuracy.svg"));
  WriteFile(folder.path() / "mine.svg", "");
  // The same file with more rows, as a regression: the figures that it does not write go, and nothing else.
  data.fingerprint = "longer", data.goal = "regression", data.classes = {};
  study(data);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "accuracy.svg"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "mine.svg"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "regression-standing.svg"));
  data.name = "moved";
  study(data);
  data.name = "other", data.fingerprint = "other";
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { study(data); }),
                    "out: " + folder.path().string() + " holds the study of moved, read as a table; remove the folder or"));
  // Files that tell nothing, and one that names what the study must not remove.
  for (const std::string& text : {std::string("{}"), std::string(100000, '[')}) {
    WriteFile(folder.path() / "study.json", text);
    study(data);
  }
  const std::string outside = folder.path().filename().string() + "-outside";
  WriteFile(folder.path().parent_path() / outside, "");
  nlohmann::json json = nlohmann::json::parse(ReadFile(folder.path() / "study.json"));
  json["files"] = {"report.html", "../" + outside, "mine.svg"};
  WriteFile(folder.path() / "study.json", json.dump());
  study(data);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "report.html"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "mine.svg")) << "it is named";
  EXPECT_TRUE(std::filesystem::remove(folder.path().parent_path() / outside));
}

// Two models with three seeds each, or with so many runs that repeat these, on blocks that hardly differ, beside these
// baselines.
StudyResult ResultOf(const std::vector<Baseline>& baselines, double best = 1.0, std::size_t runs = 3, std::size_t count = 6) {
  const Models models = {{{"gru", "none"}, 8, 100}, {{"lstm", "none"}, 8, 100}};
  ContestResult contest{{3e-3},
                        {},
                        Measurements("regression", TableColumns(/*classifies=*/false), models, 0, static_cast<int64_t>(runs)),
                        {},
                        0.01,
                        0,
                        std::vector<double>(count, 1.0)};
  for (std::size_t m = 0; m < models.size(); ++m) {
    contest.entries.push_back({.model = models[m], .steps = 10, .rate = 3e-3, .tried = {}, .curve = {}});
    for (std::size_t s = 0; s < runs; ++s) {
      std::vector<double> blocks;
      for (std::size_t b = 0; b < count; ++b)
        blocks.push_back(best + static_cast<double>(m) + 0.001 * static_cast<double>((s % 3 * 7 + b * 3) % 5));
      contest.at_time.Put(m, s, {.values = {MeanOf(blocks), 0}, .blocks = blocks});
    }
  }
  contest.verdict = JudgeSome(contest, [&](const Entry& entry) { return contest.at_time.BlockLosses(entry.model); });
  StudyResult result;
  result.options = Small({"gru", "lstm"});
  result.tasks.push_back({"regression", {"regression", "Estimating y", "to estimate y", {}}, baselines, std::move(contest)});
  return result;
}

Baseline Simple(const std::string& name, double loss, bool looks) {
  return {.name = name, .blocks = std::vector<double>(6, loss), .loss = loss, .validation = loss, .looks = looks};
}

std::string WorthOfFirst(const StudyResult& result) {
  return WorthFinding(result, result.tasks.front(), WorthOf(result.tasks.front()));
}

TEST(TableStudyTest, SaysWhatASingleBlockShows) {
  const auto worth = [](double loss) {
    Baseline baseline = Simple("ridge regression", loss, true);
    baseline.blocks.resize(1);
    const StudyResult result = ResultOf({baseline}, 1.0, 3, 1);
    return WorthOfFirst(result);
  };
  EXPECT_TRUE(worth(0.1).starts_with("Whether a model is worth training is open")) << worth(0.1);
  EXPECT_TRUE(Holds(worth(0.1), "In it ridge regression was better in every run, with a loss 10 times smaller: go with it"))
      << worth(0.1);
  EXPECT_TRUE(Holds(worth(1.2), "In it the GRU was better in every run: go with it")) << worth(1.2);
  EXPECT_FALSE(Holds(worth(1.001), "In it")) << "some runs are better: " << worth(1.001);
}

TEST(TableStudyTest, SaysWhetherAModelIsWorthIt) {
  const auto worth = [](double regression, double mean) {
    const StudyResult result = ResultOf({Simple("mean", mean, false), Simple("ridge regression", regression, true)});
    return WorthOfFirst(result);
  };
  EXPECT_TRUE(
      worth(2.5, 4).starts_with("A model is worth training: after 10 steps each, the GRU has a mean squared "
                                "error of 1.002, which is 1.498 less than ridge regression. With "))
      << worth(2.5, 4);
  EXPECT_TRUE(
      worth(0.5, 4).starts_with("A model is not worth training: after 10 steps each, the GRU has a mean "
                                "squared error of 1.002, which is 0.502 more than ridge regression with a mean squared "
                                "error of 0.5. With "))
      << worth(0.5, 4);
  EXPECT_FALSE(Holds(worth(0.5, 4), "others may predict")) << worth(0.5, 4);
  EXPECT_TRUE(worth(1.002, 4).starts_with("Whether a model is worth training is open")) << worth(1.002, 4);
  EXPECT_TRUE(Holds(worth(1.002, 4), "the test part has too few data to tell the two apart")) << worth(1.002, 4);
  EXPECT_TRUE(Holds(worth(1.0028, 4), " times as many runs (--seeds ") && Holds(worth(1.0028, 4), ") would decide it"))
      << worth(1.0028, 4);
  EXPECT_TRUE(Holds(worth(4, 0.5), "more than the mean with")) << worth(4, 0.5);
  EXPECT_TRUE(worth(4, 0.5).ends_with("This holds for these models and methods; others may predict better.")) << worth(4, 0.5);
  // So many runs decide it when they differ as these do: every three of them repeat.
  const std::string open = worth(1.0028, 4);
  const double times = std::stod(open.substr(open.find("About ") + 6));
  const auto runs = static_cast<std::size_t>(3 * std::ceil(times));
  EXPECT_TRUE(runs > 3 && runs < 100) << runs;
  const StudyResult more = ResultOf({Simple("ridge regression", 1.0028, true)}, 1.0, runs);
  EXPECT_TRUE(WorthOfFirst(more).starts_with("A model is worth training")) << runs << WorthOfFirst(more);
  // The best on the test part, and not on the validation part.
  Baseline lucky = Simple("nearest neighbours", 0.25, true);
  lucky.validation = 3;
  const StudyResult chosen = ResultOf({lucky, Simple("ridge regression", 2.5, true), Simple("mean", 4, false)});
  EXPECT_EQ(chosen.tasks.front().BestBaseline().name, "ridge regression");
  const std::string told = WorthOfFirst(chosen);
  EXPECT_TRUE(told.starts_with("Whether a model is worth training is open: ")) << told;
  EXPECT_TRUE(Holds(told, "1.498 less than ridge regression, but another simple method does better still")) << told;
  EXPECT_TRUE(
      told.ends_with("Nearest neighbours loses less on the test part (0.25), but more than ridge regression on the "
                     "validation part, which chooses the method to compare with."))
      << told;
  const StudyResult result = ResultOf({Simple("mean", 4, false)});
  EXPECT_EQ(ChoiceFinding(result, result.tasks.front(), WorthOf(result.tasks.front())),
            "To estimate y, take the GRU: at this budget no other model that was trained has a smaller loss (95 %).");
}

TEST(TableStudyTest, ColumnsThatLeaveTheirRangeAreNamed) {
  EXPECT_EQ(DriftFinding({}), "");
  EXPECT_EQ(
      DriftFinding({{"x", 1, 2, 0.5, 12.25, 0.25}}),
      "The test part leaves the range of the training part: x (1 to 2 in the training part, 0.5 to 12.25 in the test part, "
      "with 25 % of its values outside).");
  EXPECT_TRUE(Holds(DriftFinding(std::vector<SeriesRange>(7, {"x", 1, 2, 0.5, 12.25, 0.25})), "and 2 more columns."));
  StudyResult result = ResultOf({Simple("mean", 4, false)});
  EXPECT_EQ(Conclusion(result).front().question, "Is it worth a model?");
  const std::size_t before = Conclusion(result).size();
  result.data.drift = "It leaves.";
  EXPECT_EQ(Conclusion(result).size(), before + 1);
}

}  // namespace
}  // namespace heed::lab
