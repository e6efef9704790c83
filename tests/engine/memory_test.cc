// Workspace as announced, memory linear in the sequence length.
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "option_at_length.h"
#include "problem.h"

namespace heed {
namespace {

TEST(WorkspaceQuery, IsWhatCallsUse) {
  const Shape shape{2, 4, 2, 300, 1500, 32, 16};
  const std::vector<float> table(4 * 101, 0.1f);
  for (bool bias : {false, true})
    for (int threads : {1, 2, 8}) {
      Attention attention;
      if (bias) attention.relative_bias = RelativeBias{View<const float, 2>::Contiguous(table.data(), {4, 101})};
      ThreadPool pool(threads);
      Problem<float> problem(shape);
      problem.Forward(attention, pool);
      EXPECT_EQ(problem.workspace.size(), ForwardWorkspace(attention, shape, sizeof(float), threads));
      problem.workspace.Release();
      problem.Backward(attention, pool);
      EXPECT_EQ(problem.workspace.size(), BackwardWorkspace(attention, shape, sizeof(float), threads));
    }
}

// One score matrix of 16384 x 16384 floats would be 1 GiB. Both passes with all their arrays (q, k, v, out and the gradients
// of each) stay below 200 MiB, whatever is asked for, and grow with the length.
//
// Of the options in their list: `first`, and every one `step` places further.
void ExpectLinear(std::size_t first, std::size_t step) {
  const auto bytes = [](const reference::Option& option, int64_t n) {
    const OptionAtLength call(option, n, 64);
    return static_cast<double>(ForwardWorkspace(call.attention(), call.shape(), 4, 2) +
                               BackwardWorkspace(call.attention(), call.shape(), 4, 2) +
                               8 * static_cast<std::size_t>(n) * 64 * 4);
  };
  for (std::size_t i = first; i < reference::Options().size(); i += step) {
    const reference::Option& option = reference::Options()[i];
    EXPECT_LE(bytes(option, 16384) / bytes(option, 4096), 4.3) << option.name;
    EXPECT_LE(bytes(option, 16384), 200.0 * 1024 * 1024) << option.name;
  }
}

TEST(WorkspaceQuery, GrowsLinearlyWithEveryFourthOption) { ExpectLinear(1, 4); }
TEST(LongWorkspaceQuery, GrowsLinearlyWithEveryOption) { ExpectLinear(0, 1); }

// A table with a row for every offset is the caller's own 2n rows; what the kernels add to it grows as it does.
TEST(WorkspaceQuery, GrowsLinearlyWithUnclippedTables) {
  const auto bytes = [](int64_t n) {
    const Shape shape{1, 1, 1, n, n, 64, 64};
    const View<const float, 2> table = View<const float, 2>::Contiguous(nullptr, {2 * n - 1, 64});
    Attention attention;
    attention.content_bias.emplace();
    attention.content_bias->keys = attention.content_bias->values = attention.content_bias->queries = table;
    attention.relative_bias = RelativeBias{View<const float, 2>::Contiguous(nullptr, {1, 2 * n - 1})};
    return static_cast<double>(ForwardWorkspace(attention, shape, 4, 2) + BackwardWorkspace(attention, shape, 4, 2));
  };
  EXPECT_LE(bytes(16384) / bytes(4096), 4.3);
}

// A dense bias that heads and batch rows share is collected in a few copies, not one for each of them.
TEST(WorkspaceQuery, HoldsAFewCopiesOfADenseBias) {
  const int64_t n = 1024;
  Attention attention;
  attention.bias = Bias{View<const float, 4>::Contiguous(nullptr, {1, 1, n, n})};
  const auto bytes = [&](int64_t batch) {
    return static_cast<double>(BackwardWorkspace(attention, {batch, 8, 8, n, n, 64, 64}, 4, 2));
  };
  EXPECT_LE(bytes(16) - bytes(1), 4.0 * n * n * sizeof(float));
}

}  // namespace
}  // namespace heed
