#include "lab/runs/kept_run.h"

#include <signal.h>

#include <atomic>
#include <stdexcept>

#include <gtest/gtest.h>

#include "lab/report/file.h"
#include "lab/training/interrupt.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

// Runs whose results are their numbers, and what became of them.
struct Numbers {
  explicit Numbers(int64_t count) : taken(static_cast<std::size_t>(count), -1) {
    for (int64_t i = 0; i < count; ++i) runs.push_back(RunOf(i));
  }

  KeptRun RunOf(int64_t i) {
    KeptRun run;
    run.name = "run-" + std::to_string(i);
    run.settings = {{"number", i}};
    run.steps = 2;
    run.compute = [this, i](const std::function<void()>& on_step) {
      ++computed;
      on_step();
      on_step();
      return Json{{"number", 10 * i}};
    };
    run.take = [this, i](const Json& result) {
      taken[static_cast<std::size_t>(i)] = result.at("number").get<int64_t>();
      return std::string("note");
    };
    return run;
  }

  void Do(const ResultStore* store, int threads = 1) { DoRuns("test", runs, store, threads, /*quiet=*/true); }

  std::vector<KeptRun> runs;
  std::atomic<int> computed = 0;
  std::vector<int64_t> taken;
};

const std::vector<int64_t> kAll = {0, 10, 20, 30};

TEST(DoRunsTest, ComputesAllAndKeepsNothingWithoutAStore) {
  for (const int threads : {1, 3, 9}) {
    Numbers numbers(4);
    numbers.Do(nullptr, threads);
    EXPECT_EQ(numbers.computed, 4) << threads;
    EXPECT_EQ(numbers.taken, kAll) << threads;
    numbers.Do(nullptr, threads);
    EXPECT_EQ(numbers.computed, 8) << "nothing was kept";
  }
}

TEST(DoRunsTest, KeepsEveryRunAndComputesItOnce) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {{"version", "1"}}), newer(folder.path(), {{"version", "2"}});
  Numbers first(4), again(4), other(4);
  first.Do(&store);
  EXPECT_EQ(folder.Names(), (std::set<std::string>{"run-0.json", "run-1.json", "run-2.json", "run-3.json"}));
  again.Do(&store, 2);
  EXPECT_EQ(again.computed, 0);
  EXPECT_EQ(again.taken, kAll);
  other.Do(&newer);
  EXPECT_EQ(other.computed, 4) << "another version";
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
  EXPECT_EQ(numbers.computed, 4);
  EXPECT_EQ(numbers.taken, kAll);
  Numbers after(4);
  after.Do(&store);
  EXPECT_EQ(after.computed, 1) << "the last one has its old settings again";
}

TEST(DoRunsTest, AnErrorIsThrownAndWhatWasFinishedIsKept) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers broken(4), after(4);
  broken.runs[2].compute = [](const std::function<void()>&) -> Json { throw std::runtime_error("no convergence"); };
  try {
    broken.Do(&store);
    FAIL() << "the error of a run is an error of all";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("no convergence"), std::string::npos) << error.what();
  }
  EXPECT_EQ(folder.Names(), (std::set<std::string>{"run-0.json", "run-1.json"}));
  after.Do(&store);
  EXPECT_EQ(after.computed, 2);
  EXPECT_EQ(after.taken, kAll);
}

TEST(DoRunsTest, CtrlCEndsItAndTheSameRunsGoOn) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers interrupted(4), after(4);
  WatchForInterrupt();
  interrupted.runs[1].compute = [](const std::function<void()>&) -> Json {
    raise(SIGINT);
    if (Interrupted()) throw Interruption("interrupted");
    return {};
  };
  EXPECT_THROW(interrupted.Do(&store), Interruption);
  WatchForInterrupt();
  EXPECT_EQ(folder.Names(), std::set<std::string>{"run-0.json"});
  after.Do(&store);
  EXPECT_EQ(after.computed, 3);
}

TEST(DoRunsTest, NoRunsAreDoneAtOnce) {
  Numbers none(0);
  none.Do(nullptr, 4);
  EXPECT_EQ(none.computed, 0);
}

}  // namespace
}  // namespace heed::lab
