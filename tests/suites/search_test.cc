#include "bench/suites/search.h"

#include <cmath>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "bench/suites/output.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

// Rows that take a second at first sight, on a clock of their own.
struct Bench {
  std::function<double(int)> ratio = [](int) { return 2.0; };  // of the call that is drawn as such a one
  std::function<double(int)> ratio_again = [](int) { return 2.0; };
  double now = 100, seconds_again = 0.25;
  std::map<std::string, int> places = {};
  int again = 0;

  SearchResult Run(const SearchOptions& options) {
    const MeasureFunction measure = [this](const CallCase& c, const CallRounds& rounds) {
      BenchRow row;
      row.call = TextOf(c);
      const int place = places.emplace(row.call, static_cast<int>(places.size())).first->second;
      row.times_alone = rounds.times_alone;
      row.ratio = rounds.times_alone ? ratio(place) : ratio_again(place);
      row.heed_ms = 1, row.torch_ms = row.ratio;
      row.pass = c.pass == BenchPass::kForward ? "forward" : "forward+backward";
      now += rounds.times_alone ? 1 : seconds_again;
      again += !rounds.times_alone;
      return row;
    };
    return RunSearch(options, measure, [this] { return now; });
  }
};

TEST(SearchTest, LooksForTwoThirdsOfTheTimeAndThenAgainAtTheListed) {
  Bench bench;
  const SearchResult result = bench.Run({.seconds = 30, .worst = 5});
  EXPECT_EQ(result.rows.size(), 20U);
  EXPECT_EQ(bench.again, 5) << "none of the others is in doubt";
  EXPECT_EQ(result.MeasuredAgain(), 5);
  EXPECT_FALSE(result.interrupted);
  for (const BenchRow& row : result.rows) EXPECT_EQ(row.suite, "search");
}

TEST(SearchTest, ARowThatWasUnluckyLeavesTheListAndOneInDoubtIsMeasured) {
  Bench bench;
  // Calls 0 to 9 were unlucky but for call 7, and call 12 is close to 1.
  bench.ratio = [](int place) { return place < 10 ? 0.5 + 0.01 * place : place == 12 ? 1.04 : 3.0; };
  bench.ratio_again = [](int place) { return place == 7 ? 0.8 : 1.5; };
  const SearchResult result = bench.Run({.seconds = 30, .worst = 2});
  ASSERT_EQ(result.rows.size(), 20U);
  EXPECT_EQ(result.rows.front().ratio, 0.8);
  EXPECT_EQ(result.MeasuredAgain(), 11);
  EXPECT_EQ(result.ShareBelow(1), 1.0 / 20);
  for (std::size_t x = 1; x < result.rows.size(); ++x) EXPECT_LE(result.rows[x - 1].ratio, result.rows[x].ratio);
}

TEST(SearchTest, RowsInDoubtAreMeasuredAgainThoughTheyAreNotListed) {
  Bench bench;
  bench.ratio = [](int place) { return place < 4 ? 1.04 : 1.06; };
  bench.ratio_again = [](int) { return 0.9; };
  const SearchResult result = bench.Run({.seconds = 30, .worst = 1});
  EXPECT_EQ(result.MeasuredAgain(), 4);
  EXPECT_EQ(result.ShareBelow(1), 4.0 / 20);
}

TEST(SearchTest, EndsWhenTheTimeIsUp) {
  Bench bench;
  bench.ratio = [](int) { return 0.5; };
  bench.seconds_again = 2;
  const SearchResult result = bench.Run({.seconds = 12, .worst = 20});
  EXPECT_EQ(result.rows.size(), 8U);
  EXPECT_EQ(bench.again, 2) << "in the four seconds that are left";
  EXPECT_EQ(result.MeasuredAgain(), 2);
}

TEST(SearchTest, ARowThatFailsIsNamed) {
  const MeasureFunction measure = [](const CallCase&, const CallRounds&) -> BenchRow { throw std::runtime_error("no"); };
  const std::string what = WhatOf<std::runtime_error>([&] { RunSearch({.seconds = 1}, measure, [] { return 0.0; }); });
  EXPECT_EQ(what.substr(0, 1), "B") << what;
  EXPECT_EQ(what.substr(what.size() - 4), ": no") << what;
}

TEST(SearchTest, TheCommandDrawsTheSameCalls) {
  EXPECT_EQ(CommandOf(SearchOptions{.seconds = 90, .threads = 1}, "out"), "heed bench --search 90 --threads 1 --out out");
  EXPECT_EQ(CommandOf(SearchOptions{.seconds = 5, .memory_mib = 512, .worst = 3, .seed = 4, .threads = 2}, "out"),
            "heed bench --search 5 --search-memory 512 --worst 3 --seed 4 --threads 2 --out out");
}

SearchResult Result(const std::vector<double>& ratios) {
  SearchResult result;
  for (const double ratio : ratios) {
    BenchRow row;
    row.ratio = ratio, row.heed_ms = 2, row.torch_ms = 2 * ratio, row.pass = "forward";
    row.call = "B1 H1 n2 d8", row.torch_path = "flash", row.torch_way = "folded groups";
    row.times_alone = ratio > 1;
    result.rows.push_back(row);
  }
  return result;
}

TEST(SearchOutputTest, CountsRatios) {
  const std::string summary = SearchSummary(Result({0.5, 0.97, 1, 8}), {.memory_mib = 64, .seed = 3});
  // The geometric mean is (0.5 * 0.97 * 8)^(1/4).
  EXPECT_EQ(
      summary,
      "4 calls drawn with seed 3, of at most 64 MiB; LibTorch's time over heed's: geometric mean 1.40, 2 below 1 (50.0 %), 1 "
      "below 0.95 (25.0 %). 3 of them were measured again.");
  const nlohmann::ordered_json json = SearchJson(Result({0.5, 0.97, 1, 8}), {.seed = 3});
  EXPECT_EQ(json["drawn"], 4);
  EXPECT_EQ(json["shares_below"]["1"], 0.5);
  EXPECT_EQ(json["shares_below"]["0.95"], 0.25);
  EXPECT_EQ(json["rows"].size(), 4U);
  EXPECT_EQ(json["rows"][0]["call"], "B1 H1 n2 d8");
}

TEST(SearchOutputTest, NothingIsFoundInNoTime) {
  const SearchResult none;
  EXPECT_EQ(none.ShareBelow(1), 0);
  EXPECT_NE(SearchSummary(none, {}).find("0 calls drawn"), std::string::npos);
}

TEST(SearchOutputTest, ListsTheWorstWithTheirCommands) {
  const Table table = SearchTable(Result({0.5, 0.97, 1, 8}), {.worst = 2});
  ASSERT_EQ(table.rows.size(), 2U);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"0.50", "2.00", "1.00", "0.0", "0.0", "flash, folded groups",
                                                     "heed bench --case 'B1 H1 n2 d8'"}));
  EXPECT_EQ(SearchTable(Result({8}), {}).rows[0][3], "-") << "not measured";
}

TEST(SearchOutputTest, TheFigureIsADistribution) {
  const Figure figure = SearchFigure(Result({0.5, 0.97, 1, 8}));
  const auto& plot = std::get<LinePlot>(figure.content);
  ASSERT_EQ(plot.series.size(), 1U);
  EXPECT_EQ(plot.series[0].x, (std::vector<double>{25, 50, 75, 100}));
  EXPECT_EQ(plot.series[0].y, (std::vector<double>{0.5, 0.97, 1, 8}));
}

}  // namespace
}  // namespace heed::lab
