#include "lab/bench/bench.h"

#include <variant>

#include <gtest/gtest.h>

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

TEST(BenchSuitesTest, AreFoundByName) {
  for (const std::string& suite : BenchSuites()) EXPECT_FALSE(CasesOf(suite).empty()) << suite;
  EXPECT_THROW(CasesOf("fast"), InvalidArgument);
}

}  // namespace
}  // namespace heed::lab
