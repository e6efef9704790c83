// Calls of one's own shape: what is planned and what is measured of them.
#include "bench/suites/shape.h"

#include <gtest/gtest.h>

#include "bench/suites/plan.h"
#include "heed/error.h"

namespace heed::lab {
namespace {

ShapeOptions Options() {
  ShapeOptions options;
  options.lengths = {4096};
  options.heads = 8;
  return options;
}

TEST(ShapeCalls, AreOneForEachLengthAndPass) {
  ShapeOptions options = Options();
  options.lengths = {512, 1024};
  options.key_heads = 2, options.queries = 1, options.window = 100, options.type = "bfloat16";
  const std::vector<ShapeCall> calls = CallsOf(options);
  ASSERT_EQ(calls.size(), 4u);
  EXPECT_EQ(ShapeText(calls[0].shape), "B1 H8:2 n1:512 d64");
  EXPECT_EQ(calls[0].OptionText(), "window 100, bfloat16");
  EXPECT_EQ(ElementBytes(calls[0].type), 2);
  EXPECT_FALSE(calls[2].backward);
  EXPECT_TRUE(calls[3].backward);
  EXPECT_EQ(calls[3].shape.kv_len, 1024);
  EXPECT_EQ(calls[3].attention.window.left, 99);
  options.pass = "backward";
  EXPECT_EQ(CallsOf(options).size(), 2u);
  options.key_heads = 3;
  EXPECT_THROW(CallsOf(options), InvalidArgument);
}

TEST(PlanRows, SharesFollowFromTimesAndWork) {
  ShapeOptions options = Options();
  options.causal = true;
  constexpr double kPairs = 8 * 4096.0 * 4097 / 2;
  for (const ShapeCall& call : CallsOf(options)) {
    const std::vector<PlanRow> rows = PlanCall(call, {});
    ASSERT_EQ(rows.size(), PlannedThreads().size());
    for (std::size_t x = 0; x < rows.size(); ++x) {
      const PlanRow& row = rows[x];
      EXPECT_EQ(row.threads, PlannedThreads()[x]);
      EXPECT_EQ(row.multiply_adds, kPairs * (call.backward ? 5 : 2) * 64);
      EXPECT_DOUBLE_EQ(row.balance, rows[0].seconds / (row.threads * row.seconds));
      EXPECT_LE(row.balance, 1 + 1e-12);
      EXPECT_EQ(row.limit == "-", row.balance >= 0.95) << row.limit;
      // No step is shorter than its work allows.
      for (const StepRow& step : row.steps) EXPECT_GE(step.seconds * row.threads, step.busy * (1 - 1e-12));
    }
    EXPECT_EQ(rows[0].balance, 1);
  }
}

// A thread that computes ever faster waits for memory in the end.
TEST(PlanRows, TakeTheLongerOfProductsAndBytes) {
  ShapeOptions options = Options();
  options.pass = "forward";
  const ShapeCall call = CallsOf(options)[0];
  const double slow = PlanCall(call, {.gflops = 1, .gbps = 10})[0].seconds;
  // Sums over many tasks.
  EXPECT_NEAR(slow, 2 * 8 * 4096.0 * 4096 * 128 / 1e9, 1e-9 * slow);
  const PlanRow fast = PlanCall(call, {.gflops = 1e6, .gbps = 10})[0];
  const auto bytes = static_cast<double>(fast.steps[0].bytes_read + fast.steps[0].bytes_written);
  EXPECT_NEAR(fast.seconds, bytes / 1e10, 1e-9 * fast.seconds);
}

TEST(PlanRows, NameWhatLimitsThem) {
  ShapeOptions options = Options();
  options.heads = 1, options.pass = "forward", options.lengths = {2048};
  const std::vector<PlanRow> rows = PlanCall(CallsOf(options)[0], {});
  EXPECT_EQ(rows.back().limit, "panels: 32 tasks");
  EXPECT_NEAR(rows.back().balance, 32.0 / 128, 1e-12);
  options.lengths = {64};
  EXPECT_EQ(PlanCall(CallsOf(options)[0], {}).back().limit, "panels: 1 tasks");
}

// Extents far beyond any memory are planned or refused, never wrapped around.
TEST(PlanRows, AreRefusedWhereNobodyCouldCall) {
  ShapeOptions options = Options();
  for (const int64_t n : {int64_t{1} << 24, int64_t{1} << 40}) {
    options.lengths = {n};
    options.pass = "forward", options.heads = 1;
    const ShapeCall call = CallsOf(options)[0];
    if (n < int64_t{1} << 30) {
      const double pairs = static_cast<double>(n);
      EXPECT_EQ(PlanCall(call, {})[0].multiply_adds, pairs * pairs * 128);
    } else {
      EXPECT_THROW(PlanCall(call, {}), InvalidArgument);
    }
  }
}

TEST(ShapeRows, FollowFromTimesAndWork) {
  ShapeOptions options = Options();
  options.lengths = {70}, options.causal = true;
  for (const char* type : {"float32", "float64", "bfloat16", "float16"}) {
    options.type = type;
    ShapeRuns runs;
    runs.threads = 2, runs.rounds = 2;
    int64_t told = 0;
    const std::vector<ShapeRow> rows = RunShapes(CallsOf(options), runs, [&](const ShapeRow&) { ++told; });
    ASSERT_EQ(rows.size(), 2u);
    EXPECT_EQ(told, 2);
    for (const ShapeRow& row : rows) {
      const double operations = (row.pass == "forward" ? 4 : 10) * 8 * 64 * 70.0 * 71 / 2;
      EXPECT_EQ(row.runs, 2);
      EXPECT_LE(row.ms, row.median_ms);
      EXPECT_NEAR(row.gflops, operations / (row.ms * 1e6), 1e-9 * row.gflops);
      EXPECT_NEAR(row.percent_of_peak, 100 * row.gflops / (2 * row.peak_gflops), 1e-9 * row.percent_of_peak);
      EXPECT_GT(row.resident_mib, row.array_mib);
    }
  }
}

}  // namespace
}  // namespace heed::lab
