#include "lab/study/study.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "lab/report/file.h"
#include "lab/report/result_store.h"
#include "lab/study/figures.h"
#include "lab/study/findings.h"
#include "lab/study/plan.h"
#include "lab/study/run.h"
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

// What models lost at the training length of 8 characters, by seed; one more nat at each longer one.
struct Lost {
  std::string encoder, position;
  std::vector<double> losses;
};

Measurements Measured(const std::vector<Lost>& lost) {
  const Measure loss = StudyColumns(Tiny(), Objective::kCausal).front().measure;
  Models models;
  for (const Lost& one : lost) models.push_back({{one.encoder, one.position}, 64, 1000});
  Measurements measured("causal", {{loss, 8}, {loss, 16}, {loss, 32}}, models, 0, std::ssize(lost.front().losses));
  for (std::size_t m = 0; m < lost.size(); ++m) {
    for (std::size_t s = 0; s < lost[m].losses.size(); ++s) {
      const double at_training = lost[m].losses[s];
      measured.Put(m, s, {{at_training, at_training + 1, at_training + 2}});
    }
  }
  return measured;
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
      const Models models = PlanModels(BudgetOptions(budget), objective, corpus.vocabulary);
      EXPECT_EQ(models.size(), 10u);
      double least = INFINITY, most = 0;
      for (const SizedContender& model : models) {
        const TrainOptions training = TrainingOf(BudgetOptions(budget), objective, model, 0);
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
  const Models models = PlanModels(options, Objective::kMasked, corpus.vocabulary);
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
      const Models models = PlanModels(options, objective, corpus.vocabulary);  // else it throws
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

TEST(StudyBaselinesTest, FollowTheCounts) {
  // Training a b a b a b, validation a b: with one added to each count, both characters have frequency 1/2. b followed a
  // three times of three; with one more pair spread by the frequencies that is 3.5 / 4.
  Corpus corpus{Vocabulary(U"ab"), {0, 1, 0, 1, 0, 1}, {0, 1}};
  const Baselines baselines = CountBaselines(corpus);
  EXPECT_NEAR(baselines.frequencies, std::log(2.0), 1e-12);
  EXPECT_NEAR(baselines.previous_character, -std::log(3.5 / 4), 1e-12);
}

TEST(StudyRunTest, KnowsATableThatIsNotWhole) {
  EXPECT_FALSE(TableOf(nullptr));
  nlohmann::ordered_json json = {{"scheme", "relative"}, {"rows", 2}, {"columns", 3}, {"values", {1.0 / 3, 2, 3, 4, 5, 6}}};
  const std::optional<SchemeTable> table = TableOf(json);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->values, (std::vector<double>{1.0 / 3, 2, 3, 4, 5, 6}));
  EXPECT_EQ(table->columns, 3);
  json["values"].erase(0);
  EXPECT_THROW(TableOf(json), InvalidArgument);
}

TEST(StudyFindingsTest, OrderFindingTellsFailureFromSuccess) {
  const Baselines baselines{3.0, 2.5};
  const auto finding = [&](double none, double sinusoidal) {
    return OrderFinding(Measured({{"attention", "none", {none}}, {"attention", "sinusoidal", {sinusoidal}}}), baselines);
  };
  EXPECT_TRUE(Holds(finding(2.95, 2.0), "it fails")) << finding(2.95, 2.0);
  EXPECT_FALSE(Holds(finding(2.1, 2.0), "it fails")) << finding(2.1, 2.0);
  EXPECT_TRUE(Holds(finding(2.99, 2.98), "more steps")) << finding(2.99, 2.98);
  EXPECT_TRUE(Holds(finding(2.0, 2.1), "No scheme does better")) << finding(2.0, 2.1);
  EXPECT_EQ(OrderFinding(Measured({{"attention", "alibi", {2.0}}}), baselines), "");
}

TEST(StudyFindingsTest, LengthFindingNamesWhereATableEnds) {
  Measurements measured = Measured({{"attention", "learned", {2.0}}, {"attention", "alibi", {2.1}}});
  measured.Put(0, 0, {{2.0, NAN, NAN}});
  measured.Put(1, 0, {{2.1, 2.0, 1.9}});
  const std::string text = LengthFinding(measured);
  EXPECT_TRUE(Holds(text, "−0.200 (ALiBi)")) << text;
  EXPECT_TRUE(Holds(text, "learned positions ends at 8")) << text;
}

TEST(StudyRunTest, LossesAreTheSameBitsForAnyNumberOfThreads) {
  const Corpus corpus = TinyCorpus();
  StudyOptions options = Tiny();
  const auto first = TrainModels("test", corpus, options, nullptr);
  options.threads = 3;
  const auto second = TrainModels("test", corpus, options, nullptr);
  for (const std::size_t objective : {0, 1}) {
    const Measurements &a = first[objective], &b = second[objective];
    ASSERT_EQ(a.models().size(), 3u);
    for (const SizedContender& model : a.models()) {
      for (const Column& column : a.columns()) {
        if (column.measure.name == "tokens_per_second" || !a.Reaches(model, column)) continue;
        EXPECT_EQ(a.Values(model, column), b.Values(model, column)) << model.Id() << " " << column.measure.name << column.at;
      }
      const std::vector<Column> losses = a.ColumnsOf("loss");
      EXPECT_EQ(a.Reaches(model, losses[1]), model.position != "learned") << model.Id();
      EXPECT_NE(a.Values(model, losses[0])[0], a.Values(model, losses[0])[1]) << "seeds differ";
    }
    EXPECT_EQ(a.ColumnsOf("training_loss").size(), 5u) << "a point a step";
  }
}

TEST(StudyRunTest, CtrlCStopsAndFinishedRunsOfTheSameSettingsAreNotRepeated) {
  const Corpus corpus = TinyCorpus();
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {{"text", "a"}}), other(folder.path(), {{"text", "b"}});
  const StudyOptions options = Tiny();
  const auto train = [&](const StudyOptions& changed, const ResultStore& from) {
    return TrainModels("test", corpus, changed, &from)[1].Json().dump();
  };
  const std::string models = train(options, store);
  EXPECT_EQ(folder.Names().size(), 2u * 3 * 2);
  EXPECT_EQ(folder.Names().count("causal-attention-learned-seed-1.json"), 1u);

  WatchForInterrupt();
  raise(SIGINT);
  // Everything is in the store, so nothing is left that could be interrupted.
  EXPECT_EQ(train(options, store), models);
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
