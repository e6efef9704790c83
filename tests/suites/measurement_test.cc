#include "bench/suites/measurement.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/suites/contenders.h"

namespace heed::lab {
namespace {

// Beside what a call asks for, a thread has a stack and an arena of its own, and pages are whole.
constexpr double kSlackMib = 2;

// Memory that is really taken: pages count from their first byte on.
std::unique_ptr<char[]> Taken(std::size_t mib) {
  const std::size_t size = mib << 20;
  std::unique_ptr<char[]> memory(new char[size]);
  for (std::size_t i = 0; i < size; i += 1024) static_cast<volatile char*>(memory.get())[i] = 1;
  return memory;
}

TEST(PeakGrowthTest, IsWhatACallHoldsAtMost) {
  EXPECT_NEAR(PeakGrowth([] { Taken(64); }), 64, kSlackMib);
  EXPECT_NEAR(PeakGrowth([] {
                for (const std::size_t mib : {24, 32, 8}) Taken(mib);
              }),
              32, kSlackMib)
      << "one after the other";
  EXPECT_NEAR(PeakGrowth([] { const auto first = Taken(24), second = Taken(32); }), 56, kSlackMib) << "one beside the other";
  EXPECT_NEAR(PeakGrowth([] {}), 0, kSlackMib);
}

TEST(PeakGrowthTest, DoesNotCountWhatWasThere) {
  const auto before = Taken(48);
  { const auto higher = Taken(200); }
  EXPECT_NEAR(PeakGrowth([] { Taken(16); }), 16, kSlackMib);
}

TEST(PeakGrowthTest, SeesScratchMemoryThatAThreadKeeps) {
  const auto call = [] {
    static thread_local std::unique_ptr<char[]> scratch;
    if (!scratch) scratch = Taken(32);
  };
  call();
  EXPECT_NEAR(PeakGrowth(call), 32, kSlackMib);
  EXPECT_NEAR(PeakGrowth(call), 32, kSlackMib);
}

// glibc hands the arena of a thread that ended, with the pages in it, to the next thread.
TEST(PeakGrowthTest, CountsWhatAnEarlierThreadLeftToTheAllocator) {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  std::thread([] {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (int i = 0; i < 24; ++i) blocks.push_back(Taken(1));
  }).join();
  EXPECT_NEAR(PeakGrowth([] { Taken(16); }), 16, kSlackMib);
}

TEST(PeakGrowthTest, DoesNotCountWhatOnlyAFirstCallNeeds) {
  static std::unique_ptr<char[]> loaded;
  EXPECT_NEAR(PeakGrowth([] {
                if (!loaded) loaded = Taken(64);
                Taken(8);
              }),
              8, kSlackMib);
}

TEST(PeakGrowthTest, ThrowsOnWhatTheCallThrows) {
  EXPECT_THROW(PeakGrowth([] { throw std::runtime_error("no"); }), std::runtime_error);
}

// At twice the length heed needs twice the memory, and LibTorch's path with dropout four times as much.
TEST(PeakGrowthTest, TellsLinearFromQuadraticMemory) {
  const auto growth = [](BenchSide side, int64_t length) {
    const auto contenders = MakeContenders(ParseCase("B1 H4 n" + std::to_string(length) + " d64 dropout=0.1", "test"));
    return PeakGrowth([&] { contenders->Run(side, BenchPass::kForwardBackward); });
  };
  const double arrays = 4 * 4 * 64 * 4.0 / (1 << 20);  // output and three gradients of four heads, in MiB a step
  for (const int64_t length : {1024, 2048}) {
    const double heed = growth(BenchSide::kHeed, length), torch = growth(BenchSide::kTorch, length);
    EXPECT_GE(heed, arrays * static_cast<double>(length));
    EXPECT_LE(heed, 2 * arrays * static_cast<double>(length) + kSlackMib);
    EXPECT_GE(torch, 2 * 4 * 4.0 * static_cast<double>(length * length) / (1 << 20)) << "weights, and what became of them";
  }
}

TEST(TimeInTurnTest, CallsEveryCandidateInEveryRoundAndLeavesOutTheFirst) {
  std::string calls;
  const auto candidate = [&calls](char name) { return [&calls, name] { calls.push_back(name); }; };
  const std::vector<Timing> timings = TimeInTurn({candidate('a'), candidate('b'), candidate('c')}, 3, 0.0);
  EXPECT_EQ(calls, "abcabcabcabc");
  ASSERT_EQ(timings.size(), 3u);
  for (const Timing& timing : timings) {
    EXPECT_GE(timing.minimum, 0);
    EXPECT_LE(timing.minimum, timing.median);
  }
}

TEST(TimeInTurnTest, ShortOnesTakeTurnsAmongThemselves) {
  std::string calls;
  const auto candidate = [&calls](char name) { return [&calls, name] { calls.push_back(name); }; };
  const std::vector<Timing> timings = TimeInTurn({candidate('a'), candidate('b'), candidate('c')}, 2, 0.0, 2);
  ASSERT_EQ(timings.size(), 3u);
  EXPECT_EQ(std::ranges::count(calls, 'c'), 3) << "one that is not measured";
  EXPECT_EQ(std::ranges::count(calls, 'a'), std::ranges::count(calls, 'b'));
  EXPECT_GT(std::ranges::count(calls, 'a'), 10);
  EXPECT_EQ(calls.substr(0, 7), "abcabab");
  const auto slow = [] {
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(6)) continue;
  };
  calls.clear();
  TimeInTurn({candidate('a'), slow, candidate('c')}, 2, 0.0, 2);
  EXPECT_EQ(calls, "acacac");
}

TEST(TimeInTurnTest, GoesOnUntilTheTimeIsUp) {
  int64_t calls = 0;
  double counted = 0;
  TimeInTurn({[&calls, &counted] { ++calls, counted += 1e-9 * static_cast<double>(calls); }}, 1, 0.02);
  EXPECT_GT(calls, 2);
}

}  // namespace
}  // namespace heed::lab
