#include "bench/suites/bench.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include "bench/suites/contenders.h"
#include "bench/suites/output.h"
#include "heed/error.h"

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
  std::set<std::string> seen;
  for (BenchCase c : CasesOf("all")) {
    Shape& shape = c.call.shape;
    const bool decodes = shape.q_len == 1;
    shape.batch = std::min<int64_t>(shape.batch, 2), shape.kv_len = 16;
    if (!decodes) shape.q_len = 16;
    if (c.call.pass != BenchPass::kTrainingStep && !seen.insert(TextOf(c.call)).second) continue;
    for (const BenchPass pass : PassesOf(c)) {
      const BenchRow row = MeasureCase(c, pass, options);
      EXPECT_EQ(row.suite, c.suite);
      EXPECT_EQ(row.threads, c.call.threads > 0 ? c.call.threads : 2);
      EXPECT_EQ(row.length, 16);
      EXPECT_EQ(row.ratio, row.torch_ms / row.heed_ms);
      EXPECT_TRUE(0 < row.heed_ms && row.heed_ms <= row.heed_median_ms) << row.option;
      EXPECT_TRUE(0 < row.torch_ms && row.torch_ms <= row.torch_median_ms) << row.option;
      const double work = MakeContenders(c.call)->Operations(pass), peak = row.peak_gflops * 1e9 * row.threads;
      EXPECT_NEAR(row.percent_of_peak, 100 * work / (row.heed_ms * 1e-3) / peak, 1e-9 * row.percent_of_peak) << row.option;
      EXPECT_NEAR(row.torch_percent_of_peak * row.ratio, row.percent_of_peak, 1e-9 * row.percent_of_peak) << row.option;
      EXPECT_EQ(row.percent_of_bandwidth > 0, decodes) << row.option;
    }
  }
}

TEST(BenchRowTest, ACallOfItsOwnIsMeasuredByItsText) {
  const CallCase c = ParseCase("B2 H4:2 n3:40 d16:8 float64 causal threads=2 pass=forward", "--case");
  const BenchRow row = MeasureCall(c, {.rounds = 1, .seconds = 0});
  EXPECT_EQ(row.shape, "B2 H4:2 n3:40 d16:8");
  EXPECT_EQ(row.option, "float64 causal");
  EXPECT_EQ(row.pass, "forward");
  EXPECT_EQ(row.threads, 2);
  EXPECT_EQ(CommandOf(row), "heed bench --case 'B2 H4:2 n3:40 d16:8 float64 causal threads=2 pass=forward'");
  EXPECT_EQ(row.ratio, row.torch_ms / row.heed_ms);
  const double work = 2.0 * (16 + 8) * 4 * 2 * (38 + 39 + 40), peak = row.peak_gflops * 1e9 * 2;
  EXPECT_NEAR(row.percent_of_peak, 100 * work / (row.heed_ms * 1e-3) / peak, 1e-9 * row.percent_of_peak);
  const BenchRow times = MeasureCall(c, {.rounds = 1, .seconds = 0, .times_alone = true});
  EXPECT_TRUE(times.times_alone && times.heed_ms > 0 && times.torch_ms > 0);
  EXPECT_TRUE(std::isnan(times.heed_mib) && times.peak_gflops == 0);
}

TEST(BenchRowTest, TheCallOfASuitesRowIsTheOneThatIsTimed) {
  std::map<std::string, std::string> calls;
  for (const BenchCase& c : CasesOf("all")) calls[c.suite] = TextOf(c.call);
  EXPECT_EQ(calls["dropout"], "B1 H8 n2048 d64 float32 causal dropout=0.1 threads=0 pass=both");
  EXPECT_EQ(calls["bias"], "B2 H8 n1024 d64 float32 bias=relative threads=0 pass=both");
  EXPECT_EQ(calls["lengths"], "B8 H8 n1024 d64 float32 key-lengths query-lengths threads=0 pass=both");
  EXPECT_EQ(calls["types"], "B1 H8 n2048 d64 float64 threads=0 pass=both");
  EXPECT_EQ(calls["decode"], "B1 H8:1 n1:32768 d128 bfloat16 threads=2 pass=forward");
}

TEST(BenchSuitesTest, DecodingHasPlainAndGroupedHeadsShortAndLong) {
  std::set<std::string> heads;
  std::map<std::string, std::set<int64_t>> lengths;
  for (const BenchCase& c : CasesOf("decode")) {
    const Shape& shape = c.call.shape;
    heads.insert(std::to_string(shape.q_heads) + ":" + std::to_string(shape.kv_heads));
    lengths[TypeNames()[static_cast<std::size_t>(c.call.type)] + " on " + std::to_string(c.call.threads)].insert(shape.kv_len);
    EXPECT_TRUE(c.call.BoundByReading()) << "has a column of bandwidth";
  }
  EXPECT_EQ(heads, (std::set<std::string>{"8:8", "12:12", "32:8", "8:1"}));
  EXPECT_EQ(lengths.size(), 4U);
  for (const char* type : {"float32", "bfloat16"}) {
    EXPECT_EQ(lengths[type + std::string(" on 1")], (std::set<int64_t>{512, 700, 4096, 8192, 32768}));
    EXPECT_EQ(lengths[type + std::string(" on 2")], (std::set<int64_t>{4096, 8192, 32768}));
  }
}

TEST(BenchSuitesTest, AreFoundByName) {
  for (const std::string& suite : BenchSuites()) EXPECT_FALSE(CasesOf(suite).empty()) << suite;
  EXPECT_THROW(CasesOf("fast"), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
