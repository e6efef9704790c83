#include "lab/runs/job.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/training/interrupt.h"
#include "tests/error_text.h"
#include "tests/scratch_folder.h"

namespace heed::lab {
namespace {

const Measure kNumber = {.name = "number", .label = "Number"};

// Jobs whose outcomes are their numbers, and what became of them.
struct Numbers {
  explicit Numbers(int64_t count) {
    for (int64_t i = 0; i < count; ++i) jobs.push_back(JobOf(i));
  }

  Job JobOf(int64_t i) {
    Job job;
    job.name = "run-" + std::to_string(i);
    job.settings = {{"number", i}};
    job.work = 2;
    job.columns = {{kNumber}};
    job.compute = [this, i](const OnWork& on_work) {
      const std::lock_guard<std::mutex> lock(mutex);
      computed.push_back(i);
      on_work(2);
      return Outcome{.values = {10.0 * static_cast<double>(i)}};
    };
    return job;
  }

  void Do(const ResultStore* store, int threads = 1) {
    taken.clear();
    for (const Outcome& outcome : DoJobs("test", jobs, store, threads, /*quiet=*/true)) taken.push_back(outcome.values.front());
  }

  std::vector<Job> jobs;
  std::mutex mutex;
  std::vector<int64_t> computed;  // in their order
  std::vector<double> taken;
};

const std::vector<double> kAll = {0, 10, 20, 30};

TEST(JobTest, ComputesAllAndKeepsNothingWithoutAStore) {
  for (const int threads : {1, 3, 9}) {
    Numbers numbers(4);
    numbers.Do(nullptr, threads);
    EXPECT_EQ(numbers.computed.size(), 4u) << threads;
    EXPECT_EQ(numbers.taken, kAll) << threads;
    numbers.Do(nullptr, threads);
    EXPECT_EQ(numbers.computed.size(), 8u) << "nothing was kept";
  }
}

TEST(JobTest, KeepsEveryRunAndComputesItOnce) {
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

TEST(JobTest, ComputesAgainWhatIsDamagedMissingOrOfOtherSettings) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers(4).Do(&store);
  WriteFile(folder.path() / "run-0.json", "{");
  std::filesystem::remove(folder.path() / "run-1.json");
  // Whole as a file, and not as an outcome.
  store.Keep("run-2", {{"number", 2}}, {{"digits", 20}});
  Numbers numbers(4);
  numbers.jobs[3].settings = {{"number", 3}, {"lr", 0.1}};
  numbers.Do(&store);
  EXPECT_EQ(numbers.computed.size(), 4u);
  EXPECT_EQ(numbers.taken, kAll);
  Numbers after(4);
  after.Do(&store);
  EXPECT_EQ(after.computed.size(), 1u) << "the last one has its old settings again";
}

TEST(JobTest, AnErrorIsThrownAndWhatWasFinishedIsKept) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers broken(4), after(4);
  broken.jobs[2].compute = [](const OnWork&) -> Outcome { throw std::runtime_error("no convergence"); };
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

TEST(JobTest, CtrlCEndsItAndTheSameRunsGoOn) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers interrupted(4), after(4);
  WatchForInterrupt();
  interrupted.jobs[1].compute = [](const OnWork&) -> Outcome {
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

TEST(JobTest, TimesOfAnotherNumberOfRunsSideBySideAreMeasuredAgain) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  const auto done = [&](int threads) {
    Numbers numbers(4);
    numbers.jobs[1].timed = false;
    numbers.Do(&store, threads);
    EXPECT_EQ(numbers.taken, kAll);
    std::ranges::sort(numbers.computed);
    return numbers.computed;
  };
  EXPECT_EQ(done(1), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(done(3), (std::vector<int64_t>{0, 2, 3})) << "what holds no times does not depend on it";
  EXPECT_EQ(done(3), std::vector<int64_t>());
}

TEST(JobTest, TheMostWorkComesFirst) {
  Numbers numbers(5);
  for (const auto& [run, work] : {std::pair{1, 3}, {3, 9}, {4, 3}}) numbers.jobs[run].work = work;
  numbers.Do(nullptr);
  EXPECT_EQ(numbers.computed, (std::vector<int64_t>{3, 1, 4, 0, 2})) << "equal ones in the order given";
  EXPECT_EQ(numbers.taken, (std::vector<double>{0, 10, 20, 30, 40}));
}

TEST(JobTest, NoRunsAreDoneAtOnce) {
  Numbers none(0);
  none.Do(nullptr, 4);
  EXPECT_EQ(none.computed.size(), 0u);
}

TEST(JobTest, ADivergenceIsNamedAndNotKept) {
  const ScratchFolder scratch;
  const ResultStore store(scratch.path(), {});
  Job job = Numbers(1).JobOf(0);
  job.name = "copy-gru-seed-0";
  job.compute = [](const OnWork&) -> Outcome { throw Divergence("step 1"); };
  EXPECT_EQ(WhatOf<Divergence>([&] { DoJobs("test", {job}, &store, 1, true); }), "copy-gru-seed-0: step 1");
  EXPECT_TRUE(scratch.Names().empty());
}

TEST(JobTest, AnOutcomeThatIsNotWholeIsAnErrorOfTheJobAndNotKept) {
  const ScratchFolder scratch;
  const ResultStore store(scratch.path(), {});
  const auto message = [&](const std::vector<double>& values, bool checked) {
    Job job = Numbers(1).JobOf(0);
    job.compute = [values](const OnWork&) { return Outcome{.values = values}; };
    if (checked) job.check = [](const Outcome&) { throw InvalidArgument("blocks: incomplete"); };
    try {
      DoJobs("test", {job}, &store, 1, true);
    } catch (const InvalidArgument& error) {
      return "no argument is at fault: " + std::string(error.what());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({1}, false), "");
  std::filesystem::remove(scratch.path() / "run-0.json");
  for (const std::vector<double>& values : {std::vector<double>{}, {1, 2}, {NAN}})
    EXPECT_EQ(message(values, false), "run-0: the outcome cannot be used: number is missing");
  EXPECT_EQ(message({1}, true), "run-0: the outcome cannot be used: blocks: incomplete");
  EXPECT_TRUE(scratch.Names().empty());
}

TEST(JobTest, AnOutcomeSurvivesTheStoreBitByBit) {
  const Outcome outcome{.values = {1.0 / 3, NAN},
                        .blocks = {0.1, 0.2},
                        .longer = {{16, {0.3}}, {32, {1.0 / 7}}},
                        .diverged = "step 3",
                        .more = {{"rows", {1, 2}}}};
  const Outcome read = OutcomeFromJson(nlohmann::ordered_json::parse(ToJson(outcome).dump()));
  EXPECT_EQ(read.values[0], outcome.values[0]);
  EXPECT_TRUE(std::isnan(read.values[1]));
  EXPECT_EQ(read.blocks, outcome.blocks);
  EXPECT_EQ(read.longer, outcome.longer);
  EXPECT_EQ(read.diverged, outcome.diverged);
  EXPECT_EQ(read.more, outcome.more);
}

// What a file holds may be anything: a damaged one is computed again, whatever is damaged.
TEST(JobTest, DamagedOutcomesAreComputedAgain) {
  const ScratchFolder folder;
  const ResultStore store(folder.path(), {});
  Numbers numbers(1);
  numbers.Do(&store);
  const auto damage = [&](const auto& change) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(ReadFile(folder.path() / "run-0.json"));
    change(json["result"]);
    WriteFile(folder.path() / "run-0.json", json.dump());
    numbers.computed.clear();
    numbers.Do(&store);
    return numbers.computed.size();
  };
  EXPECT_EQ(damage([](auto&) {}), 0u);
  EXPECT_EQ(damage([](auto& result) { result["values"].erase(0); }), 1u);
  EXPECT_EQ(damage([](auto& result) { result["values"][0] = "many"; }), 1u);
  EXPECT_EQ(damage([](auto& result) { result["values"][0] = nullptr; }), 1u) << "a number that every outcome has";
  EXPECT_EQ(damage([](auto& result) { result["values"].push_back(2); }), 1u);
  EXPECT_EQ(damage([](auto& result) { result["longer"] = {{"far", {1}}}; }), 1u);
  EXPECT_EQ(damage([](auto& result) { result.erase("more"); }), 1u);
}

TEST(JobTest, TrainingsDifferByModelStepsSeedAndSettings) {
  const SizedContender gru{{"gru", "none"}, 8, 100};
  const auto settings = [&](const SizedContender& model, int64_t steps, uint64_t seed, int width) {
    return TrainingJob("causal", model, steps, seed, {{"width", width}}).settings;
  };
  const auto same = settings(gru, 5, 1, 4);
  EXPECT_EQ(TrainingJob("causal", gru, 5, 1, {{"width", 4}}).name, "causal-gru-seed-1");
  for (const auto& other : {settings({{"gru", "none"}, 9, 100}, 5, 1, 4), settings({{"attention", "none"}, 8, 100}, 5, 1, 4),
                            settings(gru, 6, 1, 4), settings(gru, 5, 2, 4), settings(gru, 5, 1, 8)})
    EXPECT_NE(other, same);
}

}  // namespace
}  // namespace heed::lab
