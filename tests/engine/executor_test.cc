// The thread pool: every task once, exceptions carried over, nesting, sharing and fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
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

// How often the threads of this process, but for the calling one, have gone to sleep.
int64_t TimesAsleep() {
  int64_t total = 0;
  const std::string self = std::to_string(gettid());
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == self) continue;
    std::ifstream status(thread.path() / "status");
    for (std::string word; status >> word;)
      if (int64_t times = 0; word == "voluntary_ctxt_switches:" && status >> times) total += times;
  }
  return total;
}

// A loop of two tasks on a pool of many threads: one is woken at most, the others sleep on.
TEST(ThreadPool, WakesNoMoreThreadsThanTasksNeed) {
  ThreadPool pool(9);
  pool.ParallelFor(100, [](int64_t) {});
  const int64_t before = TimesAsleep();
  constexpr int kLoops = 300;
  for (int loop = 0; loop < kLoops; ++loop)
    pool.ParallelFor(2, [](int64_t) { std::this_thread::sleep_for(std::chrono::microseconds(100)); });
  // The one that runs a task sleeps within it and after it, and may have to wait for the lock before it; eight that wake for
  // nothing sleep at least eight times.
  EXPECT_LE(TimesAsleep() - before, 6 * kLoops);
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

// The exit code of a child that calls `run` and then ends as programs do: exit() with its static destructors. -1 where a signal
// ended it: one that hangs is ended by the alarm.
int ExitCodeOfChild(const std::function<int()>& run) {
  std::fflush(nullptr);  // what is buffered would be written twice
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::exit(run());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int RunOnce(ThreadPool& pool) {
  std::atomic<int> runs{0};
  pool.ParallelFor(100, [&](int64_t) { ++runs; });
  return runs.load() == 100 ? 0 : 1;
}

class ForkedChild : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the thread sanitizer ends a child that starts threads";
#endif
  }
};

TEST_F(ForkedChild, RunsTasksAndEndsNormally) {
  ThreadPool pool(3);
  EXPECT_EQ(ExitCodeOfChild([&] { return RunOnce(pool); }), 0) << "forked before first use";
  ASSERT_EQ(RunOnce(pool), 0);
  EXPECT_EQ(ExitCodeOfChild([&] { return RunOnce(pool); }), 0) << "forked after use";
  EXPECT_EQ(ExitCodeOfChild([&] {
              const int own = RunOnce(pool);
              return own + ExitCodeOfChild([&] { return RunOnce(pool); });
            }),
            0)
      << "a grandchild";
  EXPECT_EQ(RunOnce(pool), 0);
}

// Workers of the parent wait at a condition variable; the child's copy of it must not be waited for.
TEST_F(ForkedChild, EndsNormallyWithoutUsingThePool) {
  // Static: destroyed by exit(), as the default pool is.
  static ThreadPool pool(4);
  ASSERT_EQ(RunOnce(pool), 0);
  ASSERT_EQ(RunOnce(ThreadPool::Default()), 0);
  for (int repeat = 0; repeat < 20; ++repeat) ASSERT_EQ(ExitCodeOfChild([] { return 0; }), 0);
  EXPECT_EQ(ExitCodeOfChild([] {
              auto own = std::make_unique<ThreadPool>(2);
              const int result = RunOnce(*own);
              own.reset();
              return result;
            }),
            0);
}

TEST_F(ForkedChild, MayBeginWithManyThreadsAtOnce) {
  ThreadPool pool(3);
  ASSERT_EQ(RunOnce(pool), 0);
  for (int repeat = 0; repeat < 20; ++repeat)
    ASSERT_EQ(ExitCodeOfChild([&] {
                std::atomic<int> failed{0}, ready{0};
                std::array<std::thread, 4> callers;
                for (std::thread& caller : callers)
                  caller = std::thread([&] {
                    ++ready;
                    while (ready.load() < 4) std::this_thread::yield();
                    failed += RunOnce(pool);
                  });
                for (std::thread& caller : callers) caller.join();
                return failed.load();
              }),
              0);
}

// The child is a copy of a process that computes: its locks may be held by threads that it does not have.
TEST_F(ForkedChild, RunsTasksWhileTheParentComputes) {
  ThreadPool pool(3);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop.load()) RunOnce(pool);
  });
  for (int repeat = 0; repeat < 20; ++repeat) EXPECT_EQ(ExitCodeOfChild([&] { return RunOnce(pool); }), 0);
  stop.store(true);
  busy.join();
}

TEST(ThreadPool, RefusesANegativeCount) { EXPECT_THROW(ThreadPool(-1), InvalidArgument); }

TEST(AvailableThreads, IsAtLeastOne) { EXPECT_GE(AvailableThreads(), 1); }

}  // namespace
}  // namespace heed
