#include "lab/bench/bench.h"

#include <algorithm>
#include <variant>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/bench/contenders.h"
#include "lab/bench/output.h"

namespace heed::lab {
namespace {

BenchRow Row(const std::string& suite, const std::string& pass, int64_t length, int64_t head_dim, double ratio,
             int threads = 1) {
  BenchRow row;
  row.suite = suite;
  row.option = "plain";
  row.pass = pass;
  row.length = length;
  row.head_dim = head_dim;
  row.ratio = ratio;
  row.threads = threads;
  return row;
}

TEST(BenchFigureTest, RowsThatDifferInLengthShareALine) {
  const std::vector<BenchRow> rows = {Row("causal", "forward", 2048, 64, 2.0), Row("causal", "forward+backward", 2048, 64, 4.0),
                                      Row("causal", "forward", 1024, 64, 8.0), Row("threads", "forward", 1024, 64, 1.0, 2)};
  const Figure figure = BenchFigure(rows);
  const auto& plot = std::get<LinePlot>(figure.content);
  ASSERT_EQ(plot.series.size(), 3u);
  EXPECT_EQ(plot.series[0].name, "causal, d64, forward");
  EXPECT_EQ(plot.series[0].x, (std::vector<double>{2048, 1024}));
  EXPECT_EQ(plot.series[0].y, (std::vector<double>{2.0, 8.0}));
  EXPECT_EQ(plot.series[2].name, "threads, d64, forward, 2 threads");
  EXPECT_NE(figure.title.find("2.83"), std::string::npos) << figure.title;  // (2 * 4 * 8 * 1)^(1/4)
}

TEST(BenchOptionsTest, TheCommandMeasuresTheSame) {
  BenchOptions options;
  EXPECT_EQ(CommandOf(options, "out"), "heed bench --out out");
  options.suite = "causal", options.rounds = 9, options.threads = 2;
  EXPECT_EQ(CommandOf(options, "my folder"), "heed bench --suite causal --rounds 9 --threads 2 --out 'my folder'");
}

TEST(BenchTableTest, MarksWhatMemoryLimits) {
  BenchRow limited = Row("decode", "forward", 2048, 64, 2.0);
  limited.percent_of_bandwidth = 87.25, limited.percent_of_peak = 3;
  const Table table = BenchTable({Row("full", "forward", 2048, 64, 2.0), limited});
  EXPECT_EQ(table.rows[0][7], "0.0");
  EXPECT_EQ(table.rows[1][7], "87.2b");
}

// Few tokens of every case: what a row says must follow from what it measured.
TEST(BenchRowTest, SharesFollowFromTimesAndOperations) {
  BenchOptions options;
  options.rounds = 1, options.seconds = 0, options.threads = 2;
  for (BenchCase c : CasesOf("all")) {
    c.batch = std::min<int64_t>(c.batch, 2), c.length = 16;
    for (const BenchPass pass : PassesOf(c)) {
      const BenchRow row = MeasureCase(c, pass, options);
      EXPECT_EQ(row.suite, c.suite);
      EXPECT_EQ(row.threads, c.threads > 0 ? c.threads : 2);
      EXPECT_EQ(row.length, 16);
      EXPECT_EQ(row.ratio, row.torch_ms / row.heed_ms);
      EXPECT_TRUE(0 < row.heed_ms && row.heed_ms <= row.heed_median_ms) << row.option;
      EXPECT_TRUE(0 < row.torch_ms && row.torch_ms <= row.torch_median_ms) << row.option;
      const double work = MakeContenders(c)->Operations(pass), peak = row.peak_gflops * 1e9 * row.threads;
      EXPECT_NEAR(row.percent_of_peak, 100 * work / (row.heed_ms * 1e-3) / peak, 1e-9 * row.percent_of_peak) << row.option;
      EXPECT_NEAR(row.torch_percent_of_peak * row.ratio, row.percent_of_peak, 1e-9 * row.percent_of_peak) << row.option;
      EXPECT_EQ(row.percent_of_bandwidth > 0, c.option == BenchOption::kDecode) << row.option;
    }
  }
}

TEST(BenchSuitesTest, AreFoundByName) {
  for (const std::string& suite : BenchSuites()) EXPECT_FALSE(CasesOf(suite).empty()) << suite;
  EXPECT_THROW(CasesOf("fast"), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
