// The thread pool: every task once, exceptions carried over, nesting, sharing and fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "heed/error.h"
#include "heed/executor.h"

namespace heed {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.concurrency(), threads);
    for (int64_t tasks : {0, 1, 3, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      pool.ParallelFor(tasks, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      for (const auto& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, ThrowsTheTasksExceptionAfterTheOthersEnded) {
  ThreadPool pool(3);
  std::atomic<int> ended{0};
  EXPECT_THROW(pool.ParallelFor(100,
                                [&](int64_t i) {
                                  if (i == 17) throw std::runtime_error("17");
                                  ++ended;
                                }),
               std::runtime_error);
  EXPECT_EQ(ended.load(), 99);
  pool.ParallelFor(10, [&](int64_t) { ++ended; });
  EXPECT_EQ(ended.load(), 109);
}

TEST(ThreadPool, RunsNestedCallsSerially) {
  ThreadPool pool(4);
  std::atomic<int> runs{0};
  pool.ParallelFor(8, [&](int64_t) {
    EXPECT_EQ(pool.concurrency(), 1);
    const std::thread::id self = std::this_thread::get_id();
    pool.ParallelFor(8, [&](int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      ++runs;
    });
  });
  EXPECT_EQ(runs.load(), 64);
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
  ThreadPool pool(2);
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  callers.reserve(4);
  for (int c = 0; c < 4; ++c)
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat) pool.ParallelFor(20, [&](int64_t) { ++runs; });
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs.load(), 4 * 50 * 20);
}

TEST(ThreadPool, WorksInAForkedChild) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a child that starts threads";
#endif
  ThreadPool pool(3);
  std::atomic<int> runs{0};
  pool.ParallelFor(10, [&](int64_t) { ++runs; });
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a child that hangs must not hang the test
    std::atomic<int> own{0};
    pool.ParallelFor(100, [&](int64_t) { ++own; });
    _exit(own.load() == 100 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  pool.ParallelFor(10, [&](int64_t) { ++runs; });
  EXPECT_EQ(runs.load(), 20);
}

TEST(ThreadPool, RefusesANegativeCount) { EXPECT_THROW(ThreadPool(-1), InvalidArgument); }

TEST(AvailableThreads, IsAtLeastOne) { EXPECT_GE(AvailableThreads(), 1); }

}  // namespace
}  // namespace heed
