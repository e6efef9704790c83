#include "lab/runs/run.h"

#include <signal.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "lab/report/file.h"
#include "lab/training/interrupt.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

// Runs whose results are their numbers, and what became of them.
struct Numbers {
  explicit Numbers(int64_t count) : taken(static_cast<std::size_t>(count), -1) {
    for (int64_t i = 0; i < count; ++i) runs.push_back(RunOf(i));
  }

  Run RunOf(int64_t i) {
    Run run;
    run.name = "run-" + std::to_string(i);
    run.settings = {{"number", i}};
    run.work = 2;
    run.compute = [this, i](const OnWork& on_work) {
      const std::lock_guard<std::mutex> lock(mutex);
      computed.push_back(i);
      on_work(2);
      return nlohmann::ordered_json{{"number", 10 * i}};
    };
    run.take = [this, i](const nlohmann::ordered_json& result) {
      taken[static_cast<std::size_t>(i)] = result.at("number").get<int64_t>();
      return std::string("note");
    };
    return run;
  }

  void Do(const ResultStore* store, int threads = 1) { DoRuns("test", runs, store, threads, /*quiet=*/true); }

  std::vector<Run> runs;
  std::mutex mutex;
  std::vector<int64_t> computed;  // in their order
  std::vector<int64_t> taken;
};

const std::vector<int64_t> kAll = {0, 10, 20, 30};

TEST(DoRunsTest, ComputesAllAndKeepsNothingWithoutAStore) {
  for (const int threads : {1, 3, 9}) {
    Numbers numbers(4);
    numbers.Do(nullptr, threads);
    EXPECT_EQ(numbers.computed.size(), 4u) << threads;
    EXPECT_EQ(numbers.taken, kAll) << threads;
    numbers.Do(nullptr, threads);
    EXPECT_EQ(numbers.computed.size(), 8u) << "nothing was kept";
  }
}

TEST(DoRunsTest, KeepsEveryRunAndComputesItOnce) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {{"version", "1"}}), newer(folder.path(), {{"version", "2"}});
  Numbers first(4), again(4), other(4);
  first.Do(&store);
  EXPECT_EQ(folder.Names(), (std::set<std::string>{"run-0.json", "run-1.json", "run-2.json", "run-3.json"}));
  again.Do(&store);
  EXPECT_EQ(again.computed.size(), 0u);
  EXPECT_EQ(again.taken, kAll);
  other.Do(&newer);
  EXPECT_EQ(other.computed.size(), 4u) << "another version";
}

TEST(DoRunsTest, ComputesAgainWhatIsDamagedMissingOrOfOtherSettings) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers(4).Do(&store);
  WriteFile(folder.path() / "run-0.json", "{");
  std::filesystem::remove(folder.path() / "run-1.json");
  // Whole as a file, and not as a result.
  store.Keep("run-2", {{"number", 2}}, {{"digits", 20}});
  Numbers numbers(4);
  numbers.runs[3].settings = {{"number", 3}, {"lr", 0.1}};
  numbers.Do(&store);
  EXPECT_EQ(numbers.computed.size(), 4u);
  EXPECT_EQ(numbers.taken, kAll);
  Numbers after(4);
  after.Do(&store);
  EXPECT_EQ(after.computed.size(), 1u) << "the last one has its old settings again";
}

TEST(DoRunsTest, AnErrorIsThrownAndWhatWasFinishedIsKept) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers broken(4), after(4);
  broken.runs[2].compute = [](const OnWork&) -> nlohmann::ordered_json { throw std::runtime_error("no convergence"); };
  try {
    broken.Do(&store);
    FAIL() << "the error of a run is an error of all";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("no convergence"), std::string::npos) << error.what();
  }
  EXPECT_EQ(folder.Names(), (std::set<std::string>{"run-0.json", "run-1.json"}));
  after.Do(&store);
  EXPECT_EQ(after.computed.size(), 2u);
  EXPECT_EQ(after.taken, kAll);
}

TEST(DoRunsTest, CtrlCEndsItAndTheSameRunsGoOn) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers interrupted(4), after(4);
  WatchForInterrupt();
  interrupted.runs[1].compute = [](const OnWork&) -> nlohmann::ordered_json {
    raise(SIGINT);
    if (Interrupted()) throw Interruption("interrupted");
    return {};
  };
  EXPECT_THROW(interrupted.Do(&store), Interruption);
  WatchForInterrupt();
  EXPECT_EQ(folder.Names(), std::set<std::string>{"run-0.json"});
  after.Do(&store);
  EXPECT_EQ(after.computed.size(), 3u);
}

TEST(DoRunsTest, TimesOfAnotherNumberOfRunsSideBySideAreMeasuredAgain) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  const auto done = [&](int threads) {
    Numbers numbers(4);
    numbers.runs[1].timed = false;
    numbers.Do(&store, threads);
    EXPECT_EQ(numbers.taken, kAll);
    std::ranges::sort(numbers.computed);
    return numbers.computed;
  };
  EXPECT_EQ(done(1), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(done(3), (std::vector<int64_t>{0, 2, 3})) << "what holds no times does not depend on it";
  EXPECT_EQ(done(3), std::vector<int64_t>());
}

TEST(DoRunsTest, TheMostWorkComesFirst) {
  Numbers numbers(5);
  for (const auto& [run, work] : {std::pair{1, 3}, {3, 9}, {4, 3}}) numbers.runs[run].work = work;
  numbers.Do(nullptr);
  EXPECT_EQ(numbers.computed, (std::vector<int64_t>{3, 1, 4, 0, 2})) << "equal ones in the order given";
  EXPECT_EQ(numbers.taken, (std::vector<int64_t>{0, 10, 20, 30, 40}));
}

TEST(DoRunsTest, NoRunsAreDoneAtOnce) {
  Numbers none(0);
  none.Do(nullptr, 4);
  EXPECT_EQ(none.computed.size(), 0u);
}

}  // namespace
}  // namespace heed::lab
