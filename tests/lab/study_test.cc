#include "lab/study/study.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <string>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "lab/report/file.h"
#include "lab/report/result_store.h"
#include "lab/study/figures.h"
#include "lab/study/findings.h"
#include "lab/training/interrupt.h"
#include "lab/training/language_model.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

Text Lines(int64_t count) {
  Text text{"lines", U""};
  for (int64_t i = 0; i < count; ++i) {
    for (const char c : "line " + std::to_string(i * i % 97) + " of a text\n") text.characters.push_back(c);
  }
  return text;
}

StudyOptions Tiny() {
  StudyOptions options = BudgetOptions("quick");
  options.encoders = {"attention", "gru"};
  options.positions = {"none", "learned"};
  options.layers = 1, options.heads = 2, options.width = 16, options.context = 8, options.batch = 2;
  options.causal_steps = options.masked_steps = 5;
  options.validation = 200;
  options.seeds = 2;
  return options;
}

Corpus TinyCorpus() {
  Corpus corpus = MakeCorpus(Lines(100), 8);
  corpus.validation.resize(200);
  return corpus;
}

// A model whose runs lost these at the training length, and one more nat at each longer one.
ModelResult Lost(const std::string& encoder, const std::string& position, const std::vector<double>& losses) {
  ModelResult result{{{{encoder, position}, 64, 1000}, Objective::kCausal}, {}};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    result.runs.push_back({i, {10}, {losses[i]}, {losses[i], losses[i] + 1, losses[i] + 2}, 1000.0 * (i + 1)});
  }
  return result;
}

TEST(StudyOptionsTest, TheCommandHasEveryOptionThatDiffersFromTheBudgets) {
  StudyOptions options = BudgetOptions("quick");
  EXPECT_EQ(CommandOf(options, "", "report"), "heed study --budget quick --out report");
  options.encoders = {"attention", "gru"}, options.tasks.tasks = {"parity", "copy"}, options.seeds = 5, options.seed = 3;
  options.deepest = 2;
  EXPECT_EQ(CommandOf(options, "my book.txt", "out"),
            "heed study 'my book.txt' --budget quick --encoders attention,gru --tasks parity,copy --depth 2 --seeds 5 --seed 3 "
            "--out out");
  options = BudgetOptions("long");
  options.tasks.tasks.clear();
  options.deepest = 0, options.all_steps = 7;
  EXPECT_EQ(CommandOf(options, "-", "out"), "heed study - --budget long --tasks none --depth 0 --steps 7 --out out");
}

TEST(StudyOptionsTest, StepsOfAllReachEverySection) {
  StudyOptions options = BudgetOptions("quick");
  options.all_steps = 7, options.deepest = 2;
  EXPECT_EQ(options.steps(Objective::kCausal), 7);
  EXPECT_EQ(options.steps(Objective::kMasked), 7);
  EXPECT_EQ(DeepStacks(options)->steps, 7);
  EXPECT_EQ(DeepStacks(options)->layers, 2);
  EXPECT_EQ(DeepStacks(options)->depths, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(TasksOf(options).steps, 7);
}

TEST(StudyOptionsTest, NamesWhatIsUnknownAndListsWhatIsKnown) {
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([] { BudgetOptions("huge"); }), "'huge'"));
  StudyOptions options = Tiny();
  options.encoders = {"attention", "mamba"};
  const std::string message = WhatOf<InvalidArgument>([&] { Validate(options); });
  EXPECT_TRUE(Holds(message, "'mamba'")) << message;
  for (const std::string& known : nn::EncoderNames()) EXPECT_TRUE(Holds(message, known)) << message;
  options = Tiny();
  options.positions = {"none", "rotation"};
  const std::string schemes = WhatOf<InvalidArgument>([&] { Validate(options); });
  EXPECT_TRUE(Holds(schemes, "'rotation'") && Holds(schemes, "learned, rotary, alibi, relative, t5 or shaw")) << schemes;
  options = Tiny();
  options.width = 18, options.positions = {"rotary"};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "width: 18 leaves each of 2 heads 9 features"));
  options = Tiny();
  options.seeds = 0;
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "seeds"));
}

TEST(StudyPlanTest, ParametersAreEqualWithinFivePerCentInEveryBudget) {
  const Corpus corpus = TinyCorpus();
  for (const char* budget : {"quick", "default", "long"}) {
    for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
      const std::vector<StudyModel> models = PlanModels(BudgetOptions(budget), objective, corpus.vocabulary);
      EXPECT_EQ(models.size(), 10u);
      double least = INFINITY, most = 0;
      for (const StudyModel& model : models) {
        const TrainOptions training = TrainingOf(BudgetOptions(budget), model, 0);
        EXPECT_EQ(LanguageModel(training.model, corpus.vocabulary)->ParameterCount(), model.parameters) << model.Id();
        least = std::min<double>(least, model.parameters), most = std::max<double>(most, model.parameters);
      }
      EXPECT_LE(most, 1.05 * least) << budget;
    }
  }
}

TEST(StudyPlanTest, TakesEveryScheme) {
  const Corpus corpus = TinyCorpus();
  StudyOptions options = BudgetOptions("quick");
  options.encoders = {"attention"};
  options.positions = nn::PositionSchemeNames();
  Validate(options);
  const std::vector<StudyModel> models = PlanModels(options, Objective::kMasked, corpus.vocabulary);
  ASSERT_EQ(models.size(), 8u);
  EXPECT_EQ(models[3].Phrase(), "attention with rotary positions");
  EXPECT_EQ(models[6].Label(), "attention, T5's bias");
  EXPECT_EQ(models[7].Id(), "attention-shaw");
}

TEST(StudyPlanTest, TakesEveryEncoderAtEqualParametersInEveryBudget) {
  const Corpus corpus = TinyCorpus();
  for (const char* budget : {"quick", "long"}) {
    for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
      StudyOptions options = BudgetOptions(budget);
      options.encoders = nn::EncoderNames();
      options.positions = {"none"};
      Validate(options);
      const std::vector<StudyModel> models = PlanModels(options, objective, corpus.vocabulary);  // else it throws
      ASSERT_EQ(models.size(), nn::EncoderNames().size());
      EXPECT_EQ(models[6].Id(), "gru-attention");
      EXPECT_EQ(models[6].Phrase(), "the GRU with attention");
      EXPECT_EQ(models[7].Label(), "decomposable attention");
      EXPECT_EQ(models[7].Phrase(), "decomposable attention");
    }
  }
}

TEST(StudyPlanTest, RefusesATableThatOutweighsTheModel) {
  StudyOptions options = Tiny();
  options.context = 4096;
  const Corpus corpus = TinyCorpus();
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { PlanModels(options, Objective::kCausal, corpus.vocabulary); }), "learned"));
}

TEST(StudyMeasurementsTest, GapsAreTakenSeedBySeed) {
  const ModelResult a = Lost("gru", "none", {2.0, 3.0}), b = Lost("rnn", "none", {2.5, 3.25}),
                    c = Lost("lstm", "none", {2.5, 2.5});
  const Gap gap = GapBetween(a, b);
  EXPECT_DOUBLE_EQ(gap.loss.mean, 0.375);
  EXPECT_DOUBLE_EQ(gap.loss.low, 0.25);
  EXPECT_DOUBLE_EQ(gap.loss.high, 0.5);
  EXPECT_TRUE(gap.agreed);
  EXPECT_FALSE(GapBetween(a, c).agreed);
  EXPECT_FALSE(GapBetween(Lost("gru", "none", {2.0}), Lost("rnn", "none", {2.5})).agreed) << "one seed tells nothing of spread";
}

TEST(StudyMeasurementsTest, RanksWhatReachesTheLength) {
  std::vector<ModelResult> models = {Lost("attention", "alibi", {2.5}), Lost("attention", "learned", {2.0}),
                                     Lost("gru", "none", {2.2})};
  models[1].runs[0].losses[2] = kNoLoss;
  EXPECT_EQ(Ranked(models).front()->model.position, "learned");
  ASSERT_EQ(Ranked(models, 2).size(), 2u);
  EXPECT_EQ(Ranked(models, 2).front()->model.encoder, "gru");
  ASSERT_EQ(OnePerEncoder(models).size(), 2u);
  EXPECT_EQ(OnePerEncoder(models).front().model.position, "learned");
}

TEST(StudyMeasurementsTest, BaselinesFollowTheCounts) {
  // Training a b a b a b, validation a b: with one added to each count, both characters have frequency 1/2. b followed a
  // three times of three; with one more pair spread by the frequencies that is 3.5 / 4.
  Corpus corpus{Vocabulary(U"ab"), {0, 1, 0, 1, 0, 1}, {0, 1}};
  const Baselines baselines = CountBaselines(corpus);
  EXPECT_NEAR(baselines.frequencies, std::log(2.0), 1e-12);
  EXPECT_NEAR(baselines.previous_character, -std::log(3.5 / 4), 1e-12);
}

TEST(StudyRunTest, SurvivesTheWayThroughJsonBitByBit) {
  StudyRun run{7, {3, 6}, {1.0 / 3, 0.1}, {2.0 / 3, 1e-17 + 2, kNoLoss}, 1e5 / 7};
  const StudyRun read = RunFromJson(nlohmann::ordered_json::parse(ToJson(run).dump()));
  EXPECT_EQ(read.seed, run.seed);
  EXPECT_EQ(read.curve_steps, run.curve_steps);
  EXPECT_EQ(read.curve_losses, run.curve_losses);
  EXPECT_EQ(read.losses[0], run.losses[0]);
  EXPECT_EQ(read.losses[1], run.losses[1]);
  EXPECT_TRUE(std::isnan(read.losses[2]));
  EXPECT_EQ(read.tokens_per_second, run.tokens_per_second);
  EXPECT_FALSE(read.table);
  run.table = SchemeTable{"relative", 2, 3, {1.0 / 3, 2, 3, 4, 5, 6}, true};
  EXPECT_EQ(RunFromJson(nlohmann::ordered_json::parse(ToJson(run).dump())).table->values, run.table->values);
  nlohmann::ordered_json torn = ToJson(run);
  torn["table"]["values"].erase(0);
  EXPECT_THROW(RunFromJson(torn), InvalidArgument);
  nlohmann::ordered_json broken = ToJson(run);
  broken["losses"].erase(0);
  EXPECT_THROW(RunFromJson(broken), InvalidArgument);
}

TEST(StudyFindingsTest, RankingSaysWhoWinsByHowMuchAndWhetherSeedsAgree) {
  const std::string clear = RankingFinding({Lost("gru", "none", {2.5, 2.75}), Lost("lstm", "none", {2.0, 2.25})});
  EXPECT_TRUE(Holds(clear, "The LSTM is best with 2.125 (2.000 to 2.250) nats per character over 2 seeds")) << clear;
  EXPECT_TRUE(Holds(clear, "the GRU follows 0.500 behind (0.500 to 0.500 seed by seed)")) << clear;
  const std::string tie = RankingFinding({Lost("gru", "none", {2.0, 2.5}), Lost("lstm", "none", {2.5, 2.25})});
  EXPECT_TRUE(Holds(tie, "cannot be told apart")) << tie;
  EXPECT_EQ(RankingFinding({Lost("gru", "none", {2.0})}), "");
}

TEST(StudyFindingsTest, OrderFindingTellsFailureFromSuccess) {
  const Baselines baselines{3.0, 2.5};
  const auto finding = [&](double none, double sinusoidal) {
    return OrderFinding({Lost("attention", "none", {none}), Lost("attention", "sinusoidal", {sinusoidal})}, baselines);
  };
  EXPECT_TRUE(Holds(finding(2.95, 2.0), "it fails")) << finding(2.95, 2.0);
  EXPECT_FALSE(Holds(finding(2.1, 2.0), "it fails")) << finding(2.1, 2.0);
  EXPECT_TRUE(Holds(finding(2.99, 2.98), "more steps")) << finding(2.99, 2.98);
  EXPECT_TRUE(Holds(finding(2.0, 2.1), "No scheme does better")) << finding(2.0, 2.1);
  EXPECT_EQ(OrderFinding({Lost("attention", "alibi", {2.0})}, baselines), "");
}

TEST(StudyFindingsTest, LengthFindingNamesWhereATableEnds) {
  std::vector<ModelResult> models = {Lost("attention", "learned", {2.0}), Lost("attention", "alibi", {2.1})};
  models[0].runs[0].losses = {2.0, kNoLoss, kNoLoss};
  models[1].runs[0].losses = {2.1, 2.0, 1.9};
  const std::string text = LengthFinding(models, Tiny());
  EXPECT_TRUE(Holds(text, "−0.200 (ALiBi)")) << text;
  EXPECT_TRUE(Holds(text, "learned positions ends at 8")) << text;
}

TEST(StudyRunTest, LossesAreTheSameBitsForAnyNumberOfThreads) {
  const Corpus corpus = TinyCorpus();
  StudyOptions options = Tiny();
  const std::vector<StudyModel> models = PlanModels(options, Objective::kMasked, corpus.vocabulary);
  const auto first = TrainModels("test", corpus, options, models, nullptr);
  options.threads = 3;
  const auto second = TrainModels("test", corpus, options, models, nullptr);
  ASSERT_EQ(first.size(), 3u);
  for (std::size_t m = 0; m < first.size(); ++m) {
    for (std::size_t s = 0; s < first[m].size(); ++s) {
      EXPECT_EQ(first[m][s].curve_losses, second[m][s].curve_losses) << models[m].Id();
      EXPECT_EQ(first[m][s].losses[0], second[m][s].losses[0]) << models[m].Id();
      EXPECT_EQ(std::isnan(first[m][s].losses[1]), models[m].position == "learned") << models[m].Id();
    }
    EXPECT_NE(first[m][0].losses[0], first[m][1].losses[0]) << "seeds differ";
  }
}

TEST(StudyRunTest, CtrlCStopsAndFinishedRunsOfTheSameSettingsAreNotRepeated) {
  const Corpus corpus = TinyCorpus();
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {{"text", "a"}}), other(folder.path(), {{"text", "b"}});
  const StudyOptions options = Tiny();
  const std::vector<StudyModel> models = PlanModels(options, Objective::kCausal, corpus.vocabulary);
  const auto train = [&](const StudyOptions& changed, const ResultStore& from) {
    return TrainModels("test", corpus, changed, models, &from);
  };
  const auto runs = train(options, store);
  EXPECT_EQ(folder.Names().size(), models.size() * 2);
  EXPECT_EQ(folder.Names().count("causal-" + models[1].Id() + "-seed-1.json"), 1u);

  WatchForInterrupt();
  raise(SIGINT);
  // Everything is in the store, so nothing is left that could be interrupted.
  EXPECT_EQ(train(options, store)[1][1].curve_losses, runs[1][1].curve_losses);
  StudyOptions changed = options;
  changed.lr *= 2;
  EXPECT_THROW(train(changed, store), Interruption) << "another learning rate is another run";
  EXPECT_THROW(train(options, other), Interruption) << "another text is another run";
  changed = options;
  ++changed.threads;
  EXPECT_THROW(train(changed, store), Interruption) << "more runs side by side are another measurement of speed";
  WriteFile(folder.path() / *folder.Names().begin(), "{\"settings\"");
  EXPECT_THROW(train(options, store), Interruption) << "a damaged file counts as none";
  WatchForInterrupt();
}

TEST(StudyTest, RefusesATextTooShortForTheLongestWindow) {
  const ScratchFolder folder;
  const std::string message = WhatOf<InvalidArgument>([&] { RunStudy(Lines(5), Tiny(), folder.path()); });
  EXPECT_TRUE(Holds(message, "'lines'") && Holds(message, "330")) << message;
  EXPECT_TRUE(folder.Names().empty());
}

}  // namespace
}  // namespace heed::lab
