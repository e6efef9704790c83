// What calls allocate besides their workspace: every operator new is counted.
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "option_at_length.h"
#include "problem.h"
#include "tests/counted_allocations.h"

namespace heed {
namespace {

TEST(DecodingStep, AllocatesNothingAfterTheFirst) {
  if (HEED_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "not counted under a sanitizer";
  const Shape capacity{2, 8, 2, 1, 4096, 32, 32};
  Problem<float> problem(capacity);
  const std::vector<float> slopes(8, 0.1F);
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.slope_bias = SlopeBias{View<const float, 1>::Contiguous(slopes.data(), {8}), true};
  ThreadPool pool(2);
  const auto step = [&](int64_t length) {
    auto keys = problem.Keys(problem.k), values = problem.Values(problem.v);
    keys.extent[2] = values.extent[2] = length;
    Forward(attention, problem.Queries(problem.q), keys, values, problem.Outputs(problem.out), problem.Lse(), problem.workspace,
            pool);
  };
  const int64_t none = allocations.load();
  step(4096);
  const int64_t before = allocations.load();
  ASSERT_GT(before, none) << "the first step makes the workspace";
  for (int64_t length = 4000; length < 4096; ++length) step(length);
  EXPECT_EQ(allocations.load(), before);
}

// The workspace is there already, so what is counted are the numbers that a plan keeps, of listed positions and mask programs,
// and programs made ready for the call, whatever its length.
TEST(EveryOption, AllocatesLittleForEachTokenBesideItsWorkspace) {
  if (HEED_COUNTS_ALLOCATIONS == 0) GTEST_SKIP() << "not counted under a sanitizer";
  SerialExecutor serial;
  const auto bytes = [&](const reference::Option& option, int64_t n) {
    const OptionAtLength call(option, n, 8);
    Problem<float> problem(call.shape());
    problem.Run(call.attention(), serial);
    const int64_t before = allocated_bytes.load();
    problem.Run(call.attention(), serial);
    return allocated_bytes.load() - before;
  };
  for (const reference::Option& option : reference::Options()) {
    const int64_t small = bytes(option, 256), large = bytes(option, 1024);
    EXPECT_LE(large - small, 128 * 1024) << option.name;
    EXPECT_LE(large, 4.3 * static_cast<double>(small) + 1024) << option.name;
    const bool program = option.argument == "score" || option.argument == "mask_program";
    EXPECT_LE(small, (program ? 1024 : 128) * 1024) << option.name;
  }
}

}  // namespace
}  // namespace heed
