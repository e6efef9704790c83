// Memory as the operating system sees it: attention with dropout never holds a matrix of queries by keys.
#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <string>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "heed/nn/attention.h"

namespace heed::nn {
namespace {

// A line of /proc/self/status in MiB.
double StatusMib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) / 1024.0;
  }
  return -1;
}

// One matrix of 16384 x 16384 floats is 1 GiB. Writing 5 to clear_refs resets the high-water mark to what is resident now.
TEST(Memory, GrowsByLessThan200MibForwardAndBackward) {
  std::ofstream clear_refs("/proc/self/clear_refs");
  if (!clear_refs) GTEST_SKIP() << "/proc/self/clear_refs cannot be written: the high-water mark of memory cannot be reset";
  at::set_num_threads(2);
  const auto make = [] { return at::randn({1, 1, 16384, 64}).requires_grad_(); };
  const at::Tensor q = make(), k = make(), v = make(), d_out = at::randn({1, 1, 16384, 64});
  malloc_trim(0);
  clear_refs << "5" << std::flush;
  const double before = StatusMib("VmRSS");
  const AttentionOutput result = attention(q, k, v, AttentionOptions().dropout(0.1).seed(1));
  result.output.backward(d_out);
  const double growth = StatusMib("VmHWM") - before;
  EXPECT_GT(growth, 16.0);  // output and three gradients are 4 MiB each: the mark does move
  EXPECT_LT(growth, 200.0);
}

// The gradient of a content table is kept for every block of the call, here 8 x (2 * 1023 + 1) x 64 floats, and more.
TEST(Memory, ReleasedWorkspaceGoesBackToTheSystem) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers keep freed memory";
#endif
  const auto make = [](at::IntArrayRef shape) { return at::randn(shape).requires_grad_(); };
  const at::Tensor q = make({1, 8, 1024, 64}), k = make({1, 8, 1024, 64}), v = make({1, 8, 1024, 64}), table = make({2047, 64});
  const auto step = [&] {
    const auto gradients =
        torch::autograd::grad({attention(q, k, v, AttentionOptions().content(table, {})).output.sum()}, {q, k, v, table});
    return gradients[3];
  };
  release_workspace();
  const at::Tensor before = step();
  malloc_trim(0);
  const double kept = StatusMib("VmRSS");
  release_workspace();
  malloc_trim(0);  // what malloc keeps for later is not the workspace's
  EXPECT_GT(kept - StatusMib("VmRSS"), 4.0);
  EXPECT_TRUE(at::equal(step(), before));
}

}  // namespace
}  // namespace heed::nn
