#include "lab/study/study.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "lab/runs/contest_page.h"
#include "lab/training/interrupt.h"
#include "lab/training/language_model.h"
#include "lab/training/sequence_model.h"
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
  options.objectives = {"causal", "masked"};
  options.layers = 1, options.heads = 2, options.width = 16, options.context = 8, options.batch = 2;
  options.all_steps = 5;
  options.validation = 100, options.test = 200;
  options.seeds = 2;
  return options;
}

Vocabulary TinyVocabulary() { return Vocabulary(Lines(100).characters); }

// What models lost on each block of the test part with each seed; one more nat in windows of 16 characters.
struct Lost {
  std::string encoder, position;
  std::vector<std::vector<double>> losses;
};

StudyResult Studied(const std::vector<Lost>& lost, const std::string& objective = "causal") {
  StudyResult result;
  result.options = Tiny();
  result.options.objectives = {objective};
  result.folder = "report", result.words = "book.txt", result.data.name = "book.txt";
  result.data.beginning = "Once upon";
  const std::size_t blocks = lost.front().losses.front().size();
  const std::vector<Column> all = TextColumns(result.options);
  Models models;
  for (const Lost& one : lost) models.push_back({{one.encoder, one.position}, 64, 1000});
  Measurements measured(objective, {all[0], all[1]}, models, 0, std::ssize(lost.front().losses));
  ContestResult contest{{6e-3}, {}, measured, {}, 0.01, 0, std::vector<double>(blocks, 1.0)};
  for (std::size_t m = 0; m < lost.size(); ++m) {
    contest.entries.push_back({.model = models[m], .steps = 5, .rate = 6e-3, .tried = {}, .curve = {}});
    for (std::size_t s = 0; s < lost[m].losses.size(); ++s) {
      const std::vector<double>& losses = lost[m].losses[s];
      std::vector<double> longer = losses;
      for (double& loss : longer) loss += 1;
      const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(blocks);
      const bool ends = lost[m].position == "learned";
      Outcome outcome{.values = {mean, ends ? NAN : mean + 1}, .blocks = losses};
      if (!ends) outcome.longer[16] = longer;
      contest.at_time.Put(m, s, outcome);
    }
  }
  contest.verdict = JudgeSome(contest, [&](const Entry& entry) { return contest.at_time.BlockLosses(entry.model); });
  const std::string purpose = objective == "causal" ? "to predict the next character" : "to fill in hidden characters";
  std::vector<Baseline> baselines = {{.name = "frequencies of characters",
                                      .blocks = std::vector<double>(blocks, 3.0),
                                      .loss = 3.0,
                                      .validation = 3.0,
                                      .looks = false}};
  if (objective == "causal")
    baselines.push_back(
        {.name = "counting runs of 4 characters", .blocks = std::vector<double>(blocks, 2.5), .loss = 2.5, .validation = 2.5});
  result.tasks.push_back({objective, {"name", "Title", purpose, {}}, baselines, std::move(contest)});
  return result;
}

// Three seeds on six blocks that hardly differ.
std::vector<std::vector<double>> About(double loss) {
  std::vector<std::vector<double>> losses;
  for (int s = 0; s < 3; ++s) {
    losses.emplace_back();
    for (int b = 0; b < 6; ++b) losses.back().push_back(loss + 0.001 * ((s * 7 + b * 3) % 5));
  }
  return losses;
}

TEST(StudyOptionsTest, TheCommandHasEveryOptionThatDiffersFromTheBudgets) {
  StudyOptions options = BudgetOptions("quick");
  EXPECT_EQ(CommandOf(options, "", "report"), "heed study --budget quick --out report");
  options.encoders = {"attention", "gru"}, options.seeds = 5, options.seed = 3;
  EXPECT_EQ(CommandOf(options, "'my book.txt'", "out"),
            "heed study 'my book.txt' --budget quick --encoders attention,gru --seeds 5 --seed 3 --out out");
  options = BudgetOptions("long");
  options.all_steps = 7, options.step_seconds = {0.01, 0.0025};
  EXPECT_EQ(CommandOf(options, "-", "out"), "heed study - --budget long --steps 7 --step-seconds 0.01,0.0025 --out out");
}

TEST(StudyOptionsTest, RefusesPacesAndRatesThatDoNotFit) {
  StudyOptions options = Tiny();
  options.step_seconds = {0.01};
  const std::string paces = WhatOf<InvalidArgument>([&] { Validate(options); });
  EXPECT_TRUE(Holds(paces, "step_seconds") && Holds(paces, "are 6, got 1")) << paces;
  for (const std::vector<double>& rates : {std::vector<double>{0.01, 0.003}, std::vector<double>{0.01, 0.01}}) {
    options = Tiny();
    options.rates = rates;
    EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "rates: expected them rising"));
  }
  options.rates = {};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "rates"));
}

TEST(StudyOptionsTest, ForetellsUpToEightTimesTheSeconds) {
  StudyOptions options = BudgetOptions("quick");
  const auto refusal = [&] { return WhatOf<InvalidArgument>([&] { Validate(options); }); };
  options.for_seconds = 40;
  Validate(options);
  EXPECT_EQ(CommandOf(options, "", "out"), "heed study --budget quick --for 40 --out out");
  options.for_seconds = 3600;
  EXPECT_TRUE(Holds(refusal(), "for: 3600 s is more than 8 times the 5 s of each training") &&
              Holds(refusal(), "give --seconds 450"))
      << refusal();
  options.seconds = 450;
  Validate(options);
  options.for_seconds = 450;
  EXPECT_TRUE(Holds(refusal(), "for: 450 s is not longer than the 450 s of each training")) << refusal();
  options.for_seconds = 900, options.all_steps = 100;
  EXPECT_TRUE(Holds(refusal(), "for: ") && Holds(refusal(), "give --seconds in place of --steps")) << refusal();
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
  EXPECT_TRUE(Holds(schemes, "'rotation'") && Holds(schemes, "learned, rotary, alibi, relative, t5, shaw, kerple") &&
              Holds(schemes, "deberta or cope"))
      << schemes;
  options = Tiny();
  options.width = 18, options.positions = {"rotary"};
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "width: 18 leaves each of 2 heads 9 features"));
  options = Tiny();
  options.seeds = 0;
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Validate(options); }), "seeds"));
}

TEST(StudyPlanTest, ParametersAreEqualWithinFivePerCentInEveryBudget) {
  const Vocabulary vocabulary = TinyVocabulary();
  for (const char* budget : {"quick", "default", "long"}) {
    for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
      const Models models = PlanModels(BudgetOptions(budget), objective, vocabulary);
      EXPECT_EQ(models.size(), std::string(budget) == "long" ? 7u : 5u);
      double least = INFINITY, most = 0;
      for (const SizedContender& model : models) {
        const ModelOptions built = ModelOf(BudgetOptions(budget), objective, model, model.ffn_width);
        EXPECT_EQ(ParameterCount(*LanguageModel(built, vocabulary)), model.parameters) << model.Id();
        least = std::min<double>(least, model.parameters), most = std::max<double>(most, model.parameters);
      }
      EXPECT_LE(most, 1.05 * least) << budget;
    }
  }
}

TEST(StudyPlanTest, TakesEveryScheme) {
  const Vocabulary vocabulary = TinyVocabulary();
  StudyOptions options = BudgetOptions("quick");
  options.encoders = {"attention"};
  options.positions = nn::PositionSchemeNames();
  std::erase(options.positions, "xpos");  // it knows no objective but the causal one
  Validate(options);
  const Models models = PlanModels(options, Objective::kMasked, vocabulary);
  ASSERT_EQ(models.size(), options.positions.size());
  EXPECT_EQ(models[3].Phrase(), "attention with rotary positions");
  EXPECT_EQ(models[6].Label(), "attention, T5's bias");
  EXPECT_EQ(models[7].Id(), "attention-shaw");
}

TEST(StudyPlanTest, TakesEveryEncoderAtEqualParametersInEveryBudget) {
  const Vocabulary vocabulary = TinyVocabulary();
  for (const char* budget : {"quick", "long"}) {
    for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
      StudyOptions options = BudgetOptions(budget);
      options.encoders = nn::EncoderNames();
      options.positions = {"none"};
      Validate(options);
      const Models models = PlanModels(options, objective, vocabulary);  // else it throws
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
  const Vocabulary vocabulary = TinyVocabulary();
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { PlanModels(options, Objective::kCausal, vocabulary); }), "learned"));
}

TEST(StudyFindingsTest, AModelIsWorthItOnlyAheadOfWhatNeedsNone) {
  const auto worth = [](const StudyResult& result) {
    return WorthFinding(result, result.tasks.front(), WorthOf(result.tasks.front()));
  };
  const auto of = [&](double loss) { return worth(Studied({{"gru", "none", About(loss)}})); };
  EXPECT_TRUE(of(2.0).starts_with("A model is worth training: after 5 steps each, the GRU has 2.00")) << of(2.0);
  EXPECT_TRUE(Holds(of(2.0), "0.498 less than counting runs of 4 characters")) << of(2.0);
  EXPECT_TRUE(of(2.6).starts_with("A model is not worth training")) << of(2.6);
  EXPECT_TRUE(Holds(of(2.6), "more than counting runs of 4 characters with 2.500 nats per character")) << of(2.6);
  EXPECT_TRUE(of(2.498).starts_with("Whether a model is worth training is open")) << of(2.498);
  EXPECT_FALSE(Holds(of(2.6), "others may predict better")) << of(2.6);
  const std::string once = worth(Studied({{"gru", "none", {About(2.0).front()}}}));
  EXPECT_TRUE(once.starts_with("Whether a model is worth training is open")) << "one seed tells nothing: " << once;
  const std::string hidden = worth(Studied({{"gru", "none", About(3.5)}}, "masked"));
  EXPECT_TRUE(Holds(hidden, "more than the frequencies of characters with 3.000")) << hidden;
  EXPECT_TRUE(Holds(hidden, "others may predict better")) << hidden;
}

// A verdict that a longer training may reverse would turn.
TEST(StudyFindingsTest, AModelWhoseCurveFallsIsNotYetWorthIt) {
  const auto with = [](const std::vector<CurvePoint>& curve) {
    StudyResult result = Studied({{"gru", "none", About(2.6)}, {"lstm", "none", About(3.0)}});
    result.tasks.front().contest.entries.front().curve = curve;
    return result;
  };
  const auto worth = [](const StudyResult& result) {
    return WorthFinding(result, result.tasks.front(), WorthOf(result.tasks.front()));
  };
  const StudyResult falls = with({{1, 4.0, 4.0}, {2, 3.3, 3.3}, {5, 2.6, 2.6}});
  const std::string told = worth(falls);
  EXPECT_TRUE(told.starts_with("A model is not worth so short a training: after 5 steps each, the GRU has 2.602")) << told;
  EXPECT_TRUE(Holds(told, "It may be worth a longer one: by its curve the GRU comes to 2.050 in a training 2 times as long."))
      << told;
  EXPECT_TRUE(told.ends_with(" Until then take counting runs of 4 characters.")) << told;
  EXPECT_NE(NextCommand(falls), "") << "the choice is decided, and yet more training tells more";
  EXPECT_EQ(WorthOf(falls.tasks.front()).answer, "not yet");
  EXPECT_EQ(StudyJson(falls)["tasks"][0]["worth"]["answer"], "not yet");
  EXPECT_EQ(worth(with({{1, 40, 40}, {2, 33, 33}, {5, 26, 26}})), told) << "losses of the validation part may be others";
  // Falls by 0.01 a doubling, of which there are three.
  const StudyResult flat = with({{1, 2.63, 2.63}, {2, 2.61, 2.61}, {5, 2.6, 2.6}});
  EXPECT_TRUE(worth(flat).starts_with("A model is not worth training")) << worth(flat);
  EXPECT_TRUE(worth(flat).ends_with("Take counting runs of 4 characters.")) << worth(flat);
  EXPECT_EQ(NextCommand(flat), "");
  const nlohmann::ordered_json behind = StudyJson(flat)["tasks"][0]["worth"];
  EXPECT_EQ(behind["answer"], "behind");
  EXPECT_EQ(behind["baseline"], "counting runs of 4 characters");
  EXPECT_NEAR(behind["gap"].get<double>(), 0.102, 1e-3);
  // The best was long ago: more training harms.
  const StudyResult past = with({{1, 4.0, 4.0}, {2, 2.6, 2.6}, {4, 2.7, 2.7}, {5, 2.7, 2.7}});
  EXPECT_TRUE(worth(past).starts_with("A model is not worth training")) << worth(past);
  StudyResult stopped = flat;
  stopped.tasks.front().contest.verdict.back().standing = Standing::kStopped;
  stopped.tasks.front().contest.entries.back().curve = {{1, 5.0, 5.0}, {2, 4.0, 4.0}, {4, 3.0, 3.0}};
  EXPECT_TRUE(Holds(worth(stopped), "It may be worth a longer one: by its curve the LSTM comes to ")) << worth(stopped);
}

TEST(StudyFindingsTest, TheChoiceHasAPriceAndNamesWhatIsAsGood) {
  const auto choice = [](const StudyResult& result) {
    return ChoiceFinding(result, result.tasks.front(), WorthOf(result.tasks.front()));
  };
  const StudyResult one = Studied({{"gru", "none", About(2.0)}, {"lstm", "none", About(2.3)}});
  EXPECT_EQ(choice(one),
            "To predict the next character, take the GRU: at this budget no other model that was trained has a smaller loss "
            "(95 %).");
  EXPECT_EQ(NextCommand(one), "");
  EXPECT_EQ(UseCommand(one), "heed generate report/model --prompt 'Once upon'");
  StudyResult two = Studied({{"gru", "none", About(2.0)}, {"lstm", "none", About(2.0)}, {"rnn", "none", About(3.0)}});
  EXPECT_TRUE(choice(two).ends_with("As good, within 0.020: the LSTM.")) << choice(two);
  two.tasks.front().contest.tolerance = 1e-9;
  EXPECT_TRUE(Holds(choice(two), "take the GRU for now: its loss may be up to 0.00")) << choice(two);
  EXPECT_TRUE(Holds(choice(two), "Any of the GRU and the LSTM may be the best.")) << choice(two);
  EXPECT_EQ(NextCommand(two),
            "heed study book.txt --budget quick --encoders gru,lstm --positions none,learned --layers 1 --heads 2 --width 16 "
            "--context 8 --batch 2 --steps 20 --validation 100 --test 200 --out report/longer");
}

TEST(StudyFindingsTest, SchemesAreJudgedAmongThemselves) {
  const StudyResult result =
      Studied({{"attention", "alibi", About(2.2)}, {"gru", "none", About(2.0)}, {"attention", "rotary", About(2.1)}});
  const std::string text = SchemeFinding(result.tasks.front().contest);
  EXPECT_TRUE(Holds(text, "Attention with rotary positions leads with 2.1")) << text;
  EXPECT_TRUE(Holds(text, "Behind: attention with ALiBi by 0.100")) << text;
  EXPECT_FALSE(Holds(text, "GRU")) << text;
  EXPECT_EQ(SchemeFinding(Studied({{"attention", "alibi", About(2.2)}, {"gru", "none", About(2)}}).tasks.front().contest), "");
}

TEST(StudyFindingsTest, OrderFindingTellsWhatPositionsAreWorth) {
  const auto finding = [](double none, double sinusoidal) {
    return OrderFinding(
        Studied({{"attention", "none", About(none)}, {"attention", "sinusoidal", About(sinusoidal)}}, "masked"));
  };
  EXPECT_TRUE(Holds(finding(2.9, 2.0), "the gain over the frequencies is 10 % of that of")) << finding(2.9, 2.0);
  EXPECT_TRUE(Holds(finding(2.99, 2.98), "more steps")) << finding(2.99, 2.98);
  EXPECT_TRUE(Holds(finding(2.0, 2.1), "No scheme does better")) << finding(2.0, 2.1);
  EXPECT_EQ(OrderFinding(Studied({{"attention", "alibi", About(2.0)}}, "masked")), "");
}

TEST(StudyFindingsTest, LengthFindingNamesWhereATableEnds) {
  const StudyResult result =
      Studied({{"attention", "learned", About(2.0)}, {"attention", "alibi", About(2.1)}, {"gru", "none", About(2.5)}});
  const std::string text = LengthFinding(result, result.tasks.front());
  EXPECT_TRUE(Holds(text, "In windows of 16: Attention with ALiBi leads with 3.10")) << text;
  EXPECT_TRUE(Holds(text, "Behind: the GRU")) << text;
  EXPECT_TRUE(Holds(text, "Learned positions read no longer windows")) << text;
}

TEST(StudyFindingsTest, LimitsNameWhatWasLeftOut) {
  StudyResult result = Studied({{"gru", "none", {About(2.0).front()}}});
  result.options.encoders = {"gru"};
  const std::string text = LimitsFinding(result);
  EXPECT_TRUE(Holds(text, "Encoders left out: attention, convolution")) << text;
  EXPECT_TRUE(Holds(text, "With one seed no difference can be told from chance")) << text;
  EXPECT_FALSE(Holds(LimitsFinding(Studied({{"gru", "none", About(2.0)}})), "one seed"));
  const std::string rate = "All models trained with one learning rate";
  result.options.rates = {0.001};
  EXPECT_TRUE(Holds(LimitsFinding(result), rate));
  result.options.rates = {0.001, 0.01};
  EXPECT_FALSE(Holds(LimitsFinding(result), rate));
}

TEST(StudyTest, ResultsAreTheSameBitsForAnyNumberOfThreads) {
  const ScratchFolder first, second;
  StudyOptions options = Tiny();
  const StudyResult a = RunStudy(SubjectOf(Lines(100), options), options, first.path());
  options.threads = 3;
  const StudyResult b = RunStudy(SubjectOf(Lines(100), options), options, second.path());
  ASSERT_EQ(a.tasks.size(), 2u);
  for (const std::size_t objective : {0, 1}) {
    EXPECT_EQ(ToJson(a.tasks[objective].contest).dump(), ToJson(b.tasks[objective].contest).dump());
    const Measurements& measured = a.tasks[objective].contest.at_time;
    EXPECT_EQ(measured.Json().dump(), b.tasks[objective].contest.at_time.Json().dump());
    ASSERT_EQ(measured.models().size(), 3u);
    const std::vector<Column> losses = measured.ColumnsOf("loss");
    for (const SizedContender& model : measured.models()) {
      EXPECT_EQ(measured.Reaches(model, losses[1]), model.position != "learned") << model.Id();
      EXPECT_NE(measured.Values(model, losses[0])[0], measured.Values(model, losses[0])[1]) << "seeds differ";
    }
    const std::vector<CurvePoint>& curve = a.tasks[objective].contest.entries.front().curve;
    ASSERT_EQ(curve.size(), 1u) << "five steps are measured at their end";
    EXPECT_EQ(curve.front().steps, 5);
  }
}

TEST(StudyTest, CtrlCStopsAndFinishedRunsOfTheSameSettingsAreNotRepeated) {
  const ScratchFolder folder;
  StudyOptions options = Tiny();
  options.objectives = {"causal"};
  const auto study = [&](const StudyOptions& changed, int64_t lines) {
    return ToJson(RunStudy(SubjectOf(Lines(lines), changed), changed, folder.path()).tasks.front().contest).dump();
  };
  const std::string models = study(options, 100);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path() / "runs"), {}), 3 * 4)
      << "of three models the first seed on its way, two whole, and the weights of the first of these";

  WatchForInterrupt();
  raise(SIGINT);
  StudyOptions more = options;
  more.seeds = 3;
  EXPECT_THROW(study(more, 100), Interruption) << "the third seeds are in no store";
  WatchForInterrupt();
  EXPECT_EQ(study(options, 100), models);
  StudyOptions changed = options;
  changed.rates = {5e-3};
  EXPECT_NE(study(changed, 100), models) << "another learning rate is another run";
  EXPECT_NE(study(options, 101), models) << "another text is another run";
  EXPECT_EQ(study(options, 100), models);
}

TEST(StudyTest, KeepsWhatIsObservedOfEveryRunThatIsReported) {
  const ScratchFolder folder;
  StudyOptions options = Tiny();
  options.objectives = {"causal"}, options.encoders = {"gru"};
  const auto observe = [](LanguageModel& model) { return nlohmann::ordered_json{{"parameters", ParameterCount(*model)}}; };
  for (int time = 0; time < 2; ++time) {  // trained, and from the store
    const StudyResult result = RunStudy(SubjectOf(Lines(100), options, observe), options, folder.path());
    const Measurements& measured = result.tasks.front().contest.at_time;
    for (const std::size_t seed : {0, 1}) {
      EXPECT_EQ(measured.Of(measured.models().front(), seed).more,
                (nlohmann::ordered_json{{"parameters", measured.models().front().parameters}}));
    }
  }
  const ScratchFolder other;
  const StudyResult without = RunStudy(SubjectOf(Lines(100), options), options, other.path());
  const Measurements& measured = without.tasks.front().contest.at_time;
  EXPECT_TRUE(measured.Of(measured.models().front(), 0).more.is_null());
}

TEST(StudyTest, RefusesATextTooShortForTheLongestWindow) {
  const std::string message = WhatOf<InvalidArgument>([&] { SubjectOf(Lines(5), Tiny()); });
  EXPECT_TRUE(Holds(message, "'lines'") && Holds(message, "330")) << message;
}

}  // namespace
}  // namespace heed::lab
