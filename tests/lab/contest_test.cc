#include "lab/runs/contest.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/runs/contest_page.h"
#include "lab/training/divergence.h"
#include "lab/training/interrupt.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// A contest whose losses follow from a formula: a limit that each model has, a power of the steps, and how far the rate is from
// the one that suits. It counts what is asked of it.
struct Formula {
  struct Asked {
    std::string model;
    int64_t steps;
    double rate;
    uint64_t seed;
    bool reported;
    auto operator<=>(const Asked&) const = default;
  };

  std::map<std::string, double> limit = {{"gru", 1.0}, {"lstm", 1.3}, {"convolution", 1.01}};
  std::map<std::string, double> best_rate = {{"gru", 0.01}, {"lstm", 0.001}, {"convolution", 0.1}};
  std::map<std::string, double> step_seconds = {{"gru", 0.02}, {"lstm", 0.01}, {"convolution", 0.01}};
  std::set<std::string> diverging;
  double diverging_rate = INFINITY;
  int64_t interrupt_at = -1;  // the training during which somebody presses Ctrl-C

  std::mutex mutex;
  std::vector<Asked> asked;
  std::atomic<int> paced = 0;

  double Loss(const Trial& trial, const OnStep& on_step, bool reported) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      if (std::ssize(asked) == interrupt_at) throw Interruption("Ctrl-C");
      asked.push_back({trial.model.encoder, trial.steps, trial.rate, trial.seed, reported});
    }
    for (int64_t i = 0; i < trial.steps; ++i) on_step();
    if (diverging.contains(trial.model.encoder) || trial.rate >= diverging_rate) throw Divergence("it blew up at step 3");
    const double miss = std::abs(std::log10(trial.rate / best_rate.at(trial.model.encoder)));
    return limit.at(trial.model.encoder) + 2 / std::sqrt(static_cast<double>(trial.steps)) + 0.1 * miss +
           1e-4 * static_cast<double>(trial.seed % 3);
  }

  class FormulaContest : public Contest {
   public:
    explicit FormulaContest(Formula& formula) : formula_(formula) {
      const Measure loss = {.name = "loss", .label = "Loss", .phrase = "{} nats"};
      const Measure validation = {.name = "validation_loss", .label = "Validation"};
      id = "causal";
      models = {{{"gru", "none"}, 8, 100}, {{"lstm", "none"}, 8, 100}, {{"convolution", "none"}, 8, 100}};
      settings = {{"width", 4}};
      columns = {{loss, 8}, {validation}};
      weights = {1, 1, 2};
    }
    double Validate(const Trial& trial, const OnStep& on_step) const override { return formula_.Loss(trial, on_step, false); }
    Outcome Report(const Trial& trial, const OnStep& on_step) const override {
      const double value = formula_.Loss(trial, on_step, true);
      return {.values = {value, value}, .blocks = {value + 0.1, value - 0.1, value}};
    }
    double StepSeconds(const SizedContender& model) const override {
      ++formula_.paced;
      return formula_.step_seconds.at(model.encoder);
    }

   private:
    Formula& formula_;
  };
  FormulaContest Of() { return FormulaContest(*this); }

  std::set<Asked> Of(bool reported) const {
    std::set<Asked> of;
    std::ranges::copy_if(asked, std::inserter(of, of.end()), [&](const Asked& one) { return one.reported == reported; });
    return of;
  }
};

ContestOptions Options() {
  return {.seconds = 16,
          .steps = 0,
          .rates = {0.001, 0.01, 0.1},
          .step_seconds = {},
          .conduct = {.seed = 5, .seeds = 2, .threads = 3}};
}

TEST(ContestTest, TimeBecomesStepsAndRatesAreHalved) {
  Formula sample;
  const ContestResult result = Hold("test", sample.Of(), Options(), nullptr);
  EXPECT_EQ(sample.paced, 3);
  ASSERT_EQ(result.entries.size(), 3U);
  EXPECT_EQ(result.entries[0].steps, 800);  // 16 s of 20 ms
  EXPECT_EQ(result.entries[1].steps, 1600);
  EXPECT_EQ(result.common_steps, 800);
  EXPECT_TRUE(result.Timed());
  for (const Entry& entry : result.entries) {
    EXPECT_EQ(entry.rate, sample.best_rate.at(entry.model.encoder)) << entry.model.Id();
    ASSERT_EQ(entry.tried.size(), 5U) << "three at an eighth, the better two at a quarter";
    for (int i = 0; i < 5; ++i) EXPECT_EQ(entry.tried[i].steps, entry.steps / (i < 3 ? 8 : 4));
  }
  // Chosen with a seed that is not reported; the gru keeps its own rate and the lower of two equally far ones.
  const std::set<Formula::Asked> chosen = sample.Of(false), reported = sample.Of(true);
  EXPECT_TRUE(chosen.contains({"gru", 100, 0.001, 7, false}));
  EXPECT_TRUE(chosen.contains({"gru", 200, 0.001, 7, false}));
  EXPECT_FALSE(chosen.contains({"gru", 200, 0.1, 7, false}));
  // All its steps with every seed; a half and a quarter with the first; the faster ones for the steps of the slowest too.
  EXPECT_TRUE(chosen.contains({"lstm", 800, 0.001, 5, false}));
  EXPECT_TRUE(chosen.contains({"lstm", 400, 0.001, 5, false}));
  EXPECT_EQ(chosen.size(), 3U * (5 + 2));
  EXPECT_TRUE(reported.contains({"lstm", 1600, 0.001, 6, true}));
  EXPECT_TRUE(reported.contains({"lstm", 800, 0.001, 6, true}));
  EXPECT_EQ(reported.size(), 2U * (3 + 2)) << "the slowest has done so many steps already";
}

TEST(ContestTest, TheVerdictKnowsTimeStepsAndGains) {
  Formula sample;
  const ContestResult result = Hold("test", sample.Of(), Options(), nullptr);
  // After equal time the convolution, which does twice the steps, is ahead of the gru; after equal steps it is behind.
  EXPECT_EQ(result.verdict.front().contender, 2U);
  EXPECT_EQ(result.steps_verdict.front().contender, 0U);
  // The lstm is 0.29 behind, and doubled steps bring it less: 2 / 40 - 2 / 56.6 = 0.015 by its formula.
  EXPECT_EQ(result.verdict.back().contender, 1U);
  EXPECT_EQ(result.verdict.back().standing, Standing::kBehind);
  const Entry& lstm = result.entries[1];
  ASSERT_EQ(lstm.curve.size(), 3U);
  EXPECT_EQ(lstm.curve[0].steps, 400);
  const double half = lstm.curve[1].loss, whole = lstm.curve[2].loss;
  EXPECT_NEAR(lstm.Gain(), whole - whole * whole / half, 1e-12);
  EXPECT_NEAR(lstm.Gain(), 0.02, 0.006);
  EXPECT_NEAR(lstm.Foretold(), whole, 0.012);
  // The gru is 0.011 behind, less than doubled steps bring it.
  EXPECT_EQ(result.verdict[1].contender, 0U);
  EXPECT_EQ(result.verdict[1].standing, Standing::kUndecided);
  EXPECT_EQ(result.InTheRunning().size(), 2U);
}

TEST(ContestTest, StepsNeedNoPilot) {
  Formula sample;
  ContestOptions options = Options();
  options.steps = 3;
  const ContestResult result = Hold("test", sample.Of(), options, nullptr);
  EXPECT_EQ(sample.paced, 0);
  EXPECT_FALSE(result.Timed());
  EXPECT_FALSE(result.at_steps);
  for (const Entry& entry : result.entries) {
    EXPECT_EQ(entry.steps, 3);
    EXPECT_TRUE(entry.curve.empty()) << "too few steps for a quarter of them";
    EXPECT_FALSE(std::isfinite(entry.Gain()));
  }
  EXPECT_EQ(GainFinding(result), "");
}

TEST(ContestTest, ADivergingContenderLeavesTheRestIntact) {
  Formula sound, sample;
  const ContestResult before = Hold("test", sound.Of(), Options(), nullptr);
  sample.diverging = {"lstm"};
  const ContestResult result = Hold("test", sample.Of(), Options(), nullptr);
  EXPECT_EQ(result.entries[1].rate, 0);
  EXPECT_EQ(result.verdict.back().contender, 1U);
  EXPECT_EQ(result.verdict.back().standing, Standing::kDiverged);
  EXPECT_TRUE(Holds(StandingFinding(result, result.verdict), "The LSTM left the finite numbers"))
      << StandingFinding(result, result.verdict);
  for (const int i : {0, 2}) {
    const SizedContender& model = before.entries[i].model;
    const Column& loss = before.at_time.ColumnOf("loss");
    EXPECT_EQ(before.at_time.Values(model, loss), result.at_time.Values(model, loss));
  }
  EXPECT_EQ(StandingTable(result, "").rows.back()[1], "n/a");
  EXPECT_NO_THROW(StandingFigure(result, {}));
  EXPECT_NO_THROW(ToJson(result));
}

TEST(ContestTest, ARateAtWhichItDivergesIsNotChosen) {
  Formula sample;
  sample.diverging_rate = 0.05;
  const ContestResult result = Hold("test", sample.Of(), Options(), nullptr);
  EXPECT_EQ(result.entries[2].rate, 0.01) << "0.1 would suit it";
  EXPECT_FALSE(std::isfinite(result.entries[2].tried[2].loss));
  EXPECT_TRUE(Holds(RateTable(result).rows[2].back(), "diverged"));
}

TEST(ContestTest, OnlyWhenAllDivergeItFails) {
  Formula sample;
  sample.diverging = {"gru", "lstm", "convolution"};
  EXPECT_TRUE(Holds(WhatOf<Divergence>([&] { Hold("test", sample.Of(), Options(), nullptr); }), "every model"));
}

TEST(ContestTest, AnEdgeOfTheRatesIsTold) {
  Formula sample;
  const ContestResult result = Hold("test", sample.Of(), Options(), nullptr);
  const std::string text = RateFinding(result);
  EXPECT_TRUE(Holds(text, "0.01 for the GRU")) << text;
  EXPECT_TRUE(Holds(text, "For the LSTM a smaller one")) << text;
  EXPECT_TRUE(Holds(text, "For the convolution a larger one")) << text;
}

// Stopped before each of its trainings in turn, and gone on with, it ends with the same bytes as one that nobody stopped, and
// does nothing twice.
TEST(ContestTest, StoppedAnywhereItEndsWithTheSameBytes) {
  Formula whole;
  const std::string expected = ToJson(Hold("test", whole.Of(), Options(), nullptr)).dump();
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {{"text", "a"}});
  ContestOptions options = Options();
  options.conduct.threads = 1;
  Formula sample;
  for (int64_t stop = 0; stop < std::ssize(whole.asked); ++stop) {
    sample.interrupt_at = stop;
    EXPECT_THROW(Hold("test", sample.Of(), options, &store), Interruption);
    sample.step_seconds["gru"] = 0.5;  // what a second pilot would measure
  }
  sample.interrupt_at = -1;
  EXPECT_EQ(ToJson(Hold("test", sample.Of(), options, &store)).dump(), expected);
  EXPECT_EQ(sample.asked.size(), whole.asked.size());
  EXPECT_EQ(sample.paced, 3);
  // A damaged file is no result.
  WriteFile(folder.path() / "causal-gru-seed-5.json", "{");
  EXPECT_EQ(ToJson(Hold("test", sample.Of(), options, &store)).dump(), expected);
  EXPECT_EQ(sample.asked.size(), whole.asked.size() + 1);
}

TEST(ContestTest, ThePacesOfAnEarlierPilotGiveTheSameSteps) {
  Formula first, again;
  const ContestResult result = Hold("test", first.Of(), Options(), nullptr);
  ContestOptions options = Options();
  for (const Entry& entry : result.entries) options.step_seconds.push_back(entry.step_seconds);
  again.step_seconds.clear();
  EXPECT_EQ(ToJson(Hold("test", again.Of(), options, nullptr)).dump(), ToJson(result).dump());
  EXPECT_EQ(again.paced, 0);
}

TEST(ContestPageTest, WhatIsAboutAsFastIsNotTold) {
  Formula sample;
  EXPECT_TRUE(
      Holds(PaceFinding(Hold("test", sample.Of(), Options(), nullptr)), "the LSTM and the convolution are the fastest"));
  sample.step_seconds = {{"gru", 0.0105}, {"lstm", 0.01}, {"convolution", 0.0103}};
  const std::string text = PaceFinding(Hold("test", sample.Of(), Options(), nullptr));
  EXPECT_TRUE(Holds(text, "about as fast")) << text;
}

}  // namespace
}  // namespace heed::lab
