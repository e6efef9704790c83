// A plan without arrays against what calls do: their tasks are watched as they are taken, and the pairs of each are read off
// its results.
#include "bench/plans/call_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "heed/task_observer.h"
#include "problem.h"

namespace heed {
namespace {

// Claims workers that it does not have, and tells of every task before it begins and after the last of a step.
class WatchedExecutor final : public Executor, public TaskObserver {
 public:
  explicit WatchedExecutor(int workers) : workers_(workers) {}

  void ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) override {
    for (int64_t i = 0; i < tasks; ++i) task(i);
  }
  int concurrency() const override { return workers_; }

  // Everything runs on one thread, so the tasks of a step come in their order.
  void Took(int64_t place, int64_t tasks) override {
    if (place == 0) steps.push_back(tasks);
    if (measure) {
      const int64_t now = measure();
      if (place > 0 || steps.size() > 1) pairs.push_back(now - before_);
      before_ = now;
    }
  }
  void End() {
    if (measure) pairs.push_back(measure() - before_);
  }

  std::vector<int64_t> steps;        // how many tasks each has
  std::vector<int64_t> pairs;        // that each task made known
  std::function<int64_t()> measure;  // how many are known by now

 private:
  int workers_;
  int64_t before_ = 0;
};

// With scores of 0 the log-sum-exp of a row is the logarithm of how many keys it sees.
int64_t PairsOfRows(const std::vector<float>& lse) {
  int64_t pairs = 0;
  for (const float x : lse) pairs += std::isnan(x) ? 0 : std::llround(std::exp(static_cast<double>(x)));
  return pairs;
}

// Where the gradient of a row's output is how many keys it sees, each gives 1 to the gradient of every value that it sees.
int64_t PairsOfValues(const Problem<float>& problem) {
  int64_t pairs = 0;
  for (size_t at = 0; at < problem.d_v.size(); at += static_cast<size_t>(problem.shape.value_dim))
    pairs += std::isnan(problem.d_v[at]) ? 0 : std::llround(problem.d_v[at]);
  return pairs;
}

Problem<float> FlatProblem(const Shape& shape) {
  Problem<float> problem(shape);
  std::fill(problem.q.begin(), problem.q.end(), 0.0F);
  return problem;
}

std::vector<int64_t> TasksOf(const CallPlan& plan) {
  std::vector<int64_t> tasks;
  tasks.reserve(plan.steps.size());
  for (const CallStep& step : plan.steps) tasks.push_back(static_cast<int64_t>(step.tasks.size()));
  return tasks;
}

std::vector<int64_t> PairsOf(const CallStep& step) {
  std::vector<int64_t> pairs;
  pairs.reserve(step.tasks.size());
  for (const TaskCost& task : step.tasks) pairs.push_back(task.pairs);
  return pairs;
}

int64_t Sum(const std::vector<int64_t>& values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

struct Call {
  std::string name;
  Shape shape;
  Attention attention;
};

class Plans : public ::testing::Test {
 protected:
  std::vector<int64_t> lengths_{300, 77}, query_lengths_{200, 130}, offsets_{0, 90, 300, 400};

  std::vector<Call> Calls() const {
    Attention plain, causal, window, lengths, packed;
    causal.causal = window.causal = packed.causal = Causal::kBottomRight;
    window.window.left = 60;
    lengths.key_lengths = Lengths::PerBatch(lengths_.data(), 2);
    lengths.query_lengths = Lengths::PerBatch(query_lengths_.data(), 2);
    const auto offsets = View<const int64_t, 1>::Contiguous(offsets_.data(), {4});
    packed.packed = {offsets, offsets};
    return {{"plain", {2, 3, 3, 200, 300, 16, 16}, plain},
            {"causal", {1, 2, 2, 900, 900, 16, 16}, causal},
            {"window", {1, 2, 2, 1300, 1300, 16, 16}, window},
            {"one head", {1, 1, 1, 2500, 1300, 16, 16}, causal},
            {"one head, window", {1, 1, 1, 2500, 1300, 16, 16}, window},
            {"few key heads", {2, 16, 1, 150, 700, 16, 24}, causal},
            {"lengths", {2, 2, 2, 200, 300, 16, 16}, lengths},
            {"packed", {3, 2, 2, 210, 210, 16, 16}, packed},
            {"decoding", {2, 8, 2, 1, 5000, 16, 16}, plain},
            {"few tokens", {1, 1, 1, 3, 5, 4, 4}, plain}};
  }
  // Packed sequences lie in one batch row.
  static Shape ArraysOf(const Call& call) {
    Shape arrays = call.shape;
    if (call.attention.packed.present()) arrays.batch = 1, arrays.q_len = arrays.kv_len = 400;
    return arrays;
  }
};

constexpr int kWorkers[] = {1, 2, 7, 64};

TEST_F(Plans, OfTheForwardPassAreWhatCallsDo) {
  for (const Call& call : Calls())
    for (const int workers : kWorkers) {
      SCOPED_TRACE(call.name + ", workers: " + std::to_string(workers));
      const CallPlan plan = PlanForward(call.attention, call.shape, 4, workers);
      Problem<float> problem = FlatProblem(ArraysOf(call));
      WatchedExecutor executor(workers);
      executor.measure = [&] { return PairsOfRows(problem.lse); };
      problem.Forward(call.attention, executor);
      executor.End();
      EXPECT_EQ(executor.steps, TasksOf(plan));
      const std::vector<int64_t> planned = PairsOf(plan.steps[0]);
      EXPECT_EQ(Sum(planned), PairsOfRows(problem.lse));
      if (plan.steps.size() == 1) {
        EXPECT_EQ(executor.pairs, planned);
      }
      EXPECT_EQ(plan.shared_bytes + static_cast<std::size_t>(workers) * plan.bytes_of_one_worker,
                ForwardWorkspace(call.attention, call.shape, 4, workers));
    }
}

TEST_F(Plans, OfTheBackwardPassAreWhatCallsDo) {
  for (const Call& call : Calls())
    for (const int workers : kWorkers) {
      SCOPED_TRACE(call.name + ", workers: " + std::to_string(workers));
      const CallPlan plan = PlanBackward(call.attention, call.shape, 4, workers);
      Problem<float> problem = FlatProblem(ArraysOf(call));
      SerialExecutor serial;
      problem.Forward(call.attention, serial);
      for (size_t at = 0; at < problem.d_out.size(); ++at)
        problem.d_out[at] = std::round(std::exp(problem.lse[at / static_cast<size_t>(call.shape.value_dim)]));
      WatchedExecutor executor(workers);
      executor.measure = [&] { return PairsOfValues(problem); };
      problem.Backward(call.attention, executor);
      executor.End();
      EXPECT_EQ(executor.steps, TasksOf(plan));
      const std::vector<int64_t> planned = PairsOf(plan.steps[0]);
      EXPECT_EQ(Sum(planned), PairsOfRows(problem.lse));
      EXPECT_EQ(Sum(planned), PairsOfValues(problem));
      // What runs apart in pieces is known when the second step has summed it.
      if (plan.steps.size() == 1) {
        EXPECT_EQ(executor.pairs, planned);
      } else {
        EXPECT_EQ(plan.steps.size(), 2u);
        EXPECT_EQ(Sum(executor.pairs), Sum(planned));
      }
      EXPECT_EQ(plan.shared_bytes + static_cast<std::size_t>(workers) * plan.bytes_of_one_worker,
                BackwardWorkspace(call.attention, call.shape, 4, workers));
    }
}

TEST(PlannedPairs, AreThoseOfTheFormula) {
  constexpr int64_t kTokens = 100'000, kWindow = 1000;
  const Shape shape{3, 4, 2, kTokens, kTokens, 64, 64};
  Attention causal, window;
  causal.causal = window.causal = Causal::kBottomRight;
  window.window.left = kWindow - 1;
  const auto all = [&](const Attention& attention, int workers) {
    const int64_t forward = Sum(PairsOf(PlanForward(attention, shape, 4, workers).steps[0]));
    EXPECT_EQ(forward, Sum(PairsOf(PlanBackward(attention, shape, 2, workers).steps[0])));
    return forward;
  };
  for (const int workers : {1, 128}) {
    EXPECT_EQ(all({}, workers), 12 * kTokens * kTokens);
    EXPECT_EQ(all(causal, workers), 12 * (kTokens * (kTokens + 1) / 2));
    EXPECT_EQ(all(window, workers), 12 * (kTokens * kWindow - kWindow * (kWindow - 1) / 2));
  }
}

TEST(PlannedBytes, AreThoseOfTheArrays) {
  // One panel of 64 queries, one tile of keys, one task.
  const Shape shape{1, 1, 1, 64, 64, 32, 48};
  const TaskCost forward = PlanForward({}, shape, 2, 1).steps[0].tasks[0];
  EXPECT_EQ(forward.bytes_read, 2 * (64 * 32 + 64 * (32 + 48)));
  EXPECT_EQ(forward.bytes_written, 64 * (2 * 48 + 4));
  const CallPlan plan = PlanBackward({}, shape, 4, 1);
  ASSERT_EQ(plan.steps.size(), 1u);
  EXPECT_EQ(plan.steps[0].tasks[0].bytes_read, 4 * (64 * (32 + 2 * 48) + 64 * (32 + 48)) + 64 * 4);
  EXPECT_EQ(plan.steps[0].tasks[0].bytes_written, 4 * (64 * 32 + 64 * (32 + 48)));
}

double BalanceOf(const CallStep& step, int workers) {
  return static_cast<double>(Sum(PairsOf(step))) /
         (workers * Makespan(step, [](const TaskCost& task) { return static_cast<double>(task.pairs); }));
}

TEST(PlannedOrder, KeepsManyWorkersBusy) {
  Attention causal, full;
  causal.causal = Causal::kBottomRight;
  const auto forward = [&](const Shape& shape, int workers) {
    return BalanceOf(PlanForward(causal, shape, 4, workers).steps[0], workers);
  };
  const auto backward = [&](const Attention& attention, const Shape& shape, int workers) {
    return BalanceOf(PlanBackward(attention, shape, 4, workers).steps[0], workers);
  };
  EXPECT_GT(forward({1, 32, 32, 512, 512, 64, 64}, 128), 0.95);
  EXPECT_GT(forward({1, 8, 8, 4096, 4096, 64, 64}, 128), 0.95);
  EXPECT_GT(backward(full, {1, 1, 1, 16384, 16384, 64, 64}, 128), 0.95);
  EXPECT_GT(backward(causal, {1, 1, 1, 65536, 65536, 64, 64}, 64), 0.95);
  EXPECT_GT(backward(full, {1, 32, 1, 8192, 8192, 64, 64}, 128), 0.95);
}

TEST(PlannedTasks, AreRefusedWhereTheyCannotBeCounted) {
  const auto refuses = [](const Shape& shape, int element_bytes, int workers) {
    EXPECT_THROW(PlanForward({}, shape, element_bytes, workers), InvalidArgument);
    EXPECT_THROW(PlanBackward({}, shape, element_bytes, workers), InvalidArgument);
  };
  const int64_t huge = int64_t{1} << 62;
  refuses({1, 1, 1, 64, 64, 64, 64}, 3, 1);
  refuses({1, 1, 1, 64, 64, 64, 64}, 4, 0);
  refuses({1, 3, 2, 64, 64, 64, 64}, 4, 1);
  refuses({1, 1, 1, -1, 64, 64, 64}, 4, 1);
  refuses({1, 1, 1, huge, huge, 64, 64}, 4, 1);
  refuses({int64_t{1} << 40, 1, 1, 64, 64, 1, 1}, 4, 1);
  refuses({1, 1, 1, int64_t{1} << 32, int64_t{1} << 32, 64, 64}, 4, 128);
}

TEST(PlannedTasks, AreNoneWithoutTokens) {
  for (const Shape& shape :
       {Shape{0, 2, 2, 64, 64, 8, 8}, Shape{1, 0, 0, 64, 64, 8, 8}, Shape{1, 2, 2, 0, 64, 8, 8}, Shape{1, 2, 2, 64, 0, 8, 8}})
    for (const int workers : {1, 64}) {
      for (const CallStep& step : PlanForward({}, shape, 4, workers).steps) EXPECT_EQ(Sum(PairsOf(step)), 0);
      for (const CallStep& step : PlanBackward({}, shape, 4, workers).steps) EXPECT_EQ(Sum(PairsOf(step)), 0);
    }
}

struct Cancelled {};

// Ends the call at the first task after some.
class CancellingPool final : public Executor, public TaskObserver {
 public:
  void ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) override { pool_.ParallelFor(tasks, task); }
  int concurrency() const override { return pool_.concurrency(); }
  void Took(int64_t, int64_t) override {
    if (++taken_ > 5) throw Cancelled();
  }
  int taken() const { return taken_; }

 private:
  ThreadPool pool_{3};
  std::atomic<int> taken_{0};
};

// One head on one thread is one task, which tells of its chunks and pieces.
class PassedParts final : public Executor, public TaskObserver {
 public:
  void ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) override {
    for (int64_t i = 0; i < tasks; ++i) task(i);
  }
  int concurrency() const override { return 1; }
  void Took(int64_t, int64_t tasks) override { EXPECT_EQ(tasks, 1); }
  void Passed(int64_t place, int64_t part, int64_t parts) override {
    EXPECT_EQ(place, 0);
    EXPECT_EQ(part, ++passed);
    all = parts;
  }
  int64_t passed = 0, all = 0;
};

TEST(Observer, IsToldOfTheProgressOfLongTasks) {
  Problem<float> problem({1, 1, 1, 2100, 1300, 16, 16});
  SerialExecutor serial;
  problem.Forward({}, serial);
  PassedParts executor;
  problem.Backward({}, executor);
  EXPECT_GE(executor.all, 6 * 2);  // chunks, pieces
  EXPECT_EQ(executor.passed, executor.all);
}

TEST(Observer, EndsACall) {
  Problem<float> problem({1, 8, 8, 1000, 1000, 16, 16});
  CancellingPool pool;
  EXPECT_THROW(problem.Forward({}, pool), Cancelled);
  EXPECT_LE(pool.taken(), 5 + 3);
}

}  // namespace
}  // namespace heed
