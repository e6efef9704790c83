#include "lab/rates/rates.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/error_text.h"
#include "tests/lab/sample_runs.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

RateOptions Tiny() {
  RateOptions options = RateBudget("quick");
  options.layers = 1, options.heads = 2, options.width = 16, options.context = 8, options.batch = 2;
  options.steps = 4, options.seeds = 2, options.rates = {0.001, 0.01, 0.1};
  return options;
}

// What two models lost at the rates, by seed; NaN where a run diverged.
RatesResult Lost(const std::vector<std::vector<double>>& attention, const std::vector<std::vector<double>>& gru) {
  RatesResult result{Tiny(), {}};
  const Measure loss = {.name = "loss", .label = "Loss", .phrase = "{} nats"};
  for (std::size_t r = 0; r < attention.size(); ++r) {
    result.rates.emplace_back("rate", std::vector<Column>{{loss}},
                              Models{{{"attention", "rotary"}, 8, 100}, {{"gru", "none"}, 8, 100}}, 0,
                              std::ssize(attention[r]));
    for (std::size_t s = 0; s < attention[r].size(); ++s) {
      result.rates[r].Put(0, s, {{attention[r][s]}});
      result.rates[r].Put(1, s, {{gru[r][s]}});
    }
  }
  return result;
}

TEST(RatesTest, EveryModelIsTrainedAtEveryRate) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  const Corpus corpus = MakeCorpus(SampleText(), 8);
  const RatesResult result = MeasureRates(corpus, Tiny(), &store);
  EXPECT_EQ(folder.Names().size(), 3U * 2 * 2);
  EXPECT_EQ(folder.Names().count("0.01-gru-seed-1.json"), 1U);
  ASSERT_EQ(result.rates.size(), 3U);
  const SizedContender& gru = result.rates[0].models()[1];
  const Column& loss = result.rates[0].ColumnOf("loss");
  EXPECT_NE(result.rates[0].Values(gru, loss), result.rates[1].Values(gru, loss)) << "the rate matters";
  RateOptions alone = Tiny();
  alone.rates = {0.01}, alone.threads = 2;
  EXPECT_EQ(MeasureRates(corpus, alone).rates[0].Values(gru, loss), result.rates[1].Values(gru, loss));
}

TEST(RatesTest, ADivergenceIsAResult) {
  RateOptions options = Tiny();
  options.rates = {0.001, 1e30};
  const RatesResult result = MeasureRates(MakeCorpus(SampleText(), 8), options);
  for (const SizedContender& model : result.rates[1].models()) {
    EXPECT_TRUE(result.rates[0].Reaches(model, result.rates[0].ColumnOf("loss"))) << model.Id();
    EXPECT_FALSE(result.rates[1].Reaches(model, result.rates[1].ColumnOf("loss"))) << model.Id();
  }
  const RatesResult lost = Lost({{2.0}, {1.5}, {NAN}}, {{1.8}, {1.6}, {1.7}});
  const std::vector<BestRate> best = BestRates(lost);
  ASSERT_EQ(best.size(), 2U);
  EXPECT_EQ(best[0].rate, 0.01);
  EXPECT_FALSE(best[0].on_edge);
  EXPECT_TRUE(Holds(RatesConclusion(Lost({{NAN}}, {{NAN}}))[0].answer, "Every model diverges"));
}

TEST(RatesTest, SaysWhereAnOptimumMayLieBeyondTheGrid) {
  const std::string text = RatesConclusion(Lost({{1.5}, {1.6}, {1.7}}, {{1.9}, {1.8}, {1.7}}))[0].answer;
  EXPECT_TRUE(Holds(text, "is least at 0.001 for attention with rotary positions (1.500) and at 0.1 for the GRU (1.700)."))
      << text;
  EXPECT_TRUE(Holds(text, "For attention with rotary positions that is the smallest rate tried")) << text;
  EXPECT_TRUE(Holds(text, "For the GRU that is the largest rate tried")) << text;
}

TEST(RatesTest, SaysWhetherOneRateWouldDo) {
  const auto common = [](const RatesResult& result) { return RatesConclusion(result)[1].answer; };
  const std::string same = common(Lost({{1.9}, {1.5}, {1.6}}, {{2.0}, {1.8}, {1.75}}));
  EXPECT_TRUE(Holds(same, "At 0.01 no model is more than 0.050 nats behind what it reaches at a rate of its own.")) << same;
  EXPECT_TRUE(Holds(same, "Attention with rotary positions is best either way.")) << same;
  const std::string other = common(Lost({{1.5}, {1.7}, {2.0}}, {{2.0}, {1.6}, {1.55}}));
  EXPECT_TRUE(Holds(other, "One rate for all changes who is best: the GRU, with rates of their own attention")) << other;
  const std::string none = common(Lost({{NAN}, {1.5}}, {{1.5}, {NAN}}));
  EXPECT_TRUE(Holds(none, "No rate suits all")) << none;
}

TEST(RateOptionsTest, RefusesWhatCannotBe) {
  const auto fault = [](auto&& change) {
    RateOptions options = Tiny();
    change(options);
    return WhatOf<InvalidArgument>([&] { Validate(options); });
  };
  EXPECT_EQ(fault([](auto&) {}), "");
  EXPECT_EQ(fault([](auto& o) { o.rates = {0.1, 0.01}; }), "rates: expected rising numbers");
  EXPECT_TRUE(Holds(fault([](auto& o) { o.rates = {}; }), "rates: expected one number or several"));
  EXPECT_TRUE(Holds(fault([](auto& o) { o.rates = {0.1, INFINITY}; }), "rates: inf is not between 0 and inf"));
  EXPECT_TRUE(Holds(fault([](auto& o) { o.objective = "both"; }), "objective: 'both' is unknown"));
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([] { RateBudget("huge"); }), "'huge'"));
  RateOptions options = Tiny();
  options.context = 4096;
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { MeasureRates(MakeCorpus(SampleText(), 8), options); }), "context: a window"));
  options = RateBudget("quick");
  options.rates = {0.003, 0.01};
  EXPECT_EQ(CommandOf(options, "a b", "out"), "heed rates 'a b' --budget quick --rates 0.003,0.01 --out out");
}

}  // namespace
}  // namespace heed::lab
