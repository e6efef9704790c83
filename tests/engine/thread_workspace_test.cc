// Scratch memory that a thread keeps, and gives back when asked.
#include "heed/thread_workspace.h"

#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "heed/attention.h"
#include "problem.h"

namespace heed {
namespace {

TEST(ThreadWorkspaceTest, KeepsTheLargestCallUntilItIsReleased) {
  ThreadWorkspace().Release();
  const auto forward = [](int64_t length) {
    Problem<float> problem({1, 2, 2, length, length, 64, 64});
    Forward<float>({}, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v),
                   problem.Outputs(problem.out), problem.Lse());
    return problem.out;
  };
  const std::vector<float> first = forward(512);
  const std::size_t kept = ThreadWorkspace().size();
  EXPECT_GT(kept, 0);
  forward(5);
  EXPECT_EQ(ThreadWorkspace().size(), kept);
  // Another thread has its own, and frees that alone.
  std::thread([&] {
    EXPECT_EQ(ThreadWorkspace().size(), 0);
    forward(16);
    ThreadWorkspace().Release();
  }).join();
  EXPECT_EQ(ThreadWorkspace().size(), kept);
  ThreadWorkspace().Release();
  EXPECT_EQ(ThreadWorkspace().size(), 0);
  EXPECT_EQ(ThreadWorkspace().data(), nullptr);
  EXPECT_EQ(forward(512), first);
}

}  // namespace
}  // namespace heed
