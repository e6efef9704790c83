#include "core/task_loop.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>

#include "core/refuse.h"

namespace heed::core {
namespace {

// One loop while it runs.
struct Loop {
  FunctionRef<void(int64_t)> work;
  const int64_t workers;
  std::atomic<int64_t> next_worker{0};
  std::mutex mutex;
  std::exception_ptr failure;

  void Help() {
    const int64_t worker = next_worker.fetch_add(1);
    if (worker >= workers) return;
    try {
      work(worker);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }
};

// Where an executor's calls enter a loop. Gates are used again and never destroyed, so that a call that comes when its loop is
// long over finds a closed gate, or helps the loop that the gate belongs to by then.
class Gate {
 public:
  // A gate that belongs to nobody else until it is given back.
  static Gate& Take() {
    static std::atomic<Gate*> all{nullptr};
    for (Gate* gate = all.load(); gate; gate = gate->next_)
      if (!gate->taken_.exchange(true)) return *gate;
    Gate* fresh = new Gate;
    fresh->next_ = all.load();
    while (!all.compare_exchange_weak(fresh->next_, fresh)) {
    }
    return *fresh;
  }
  void GiveBack() { taken_.store(false); }

  void Open(Loop& loop) {
    loop_ = &loop;
    state_.fetch_and(~kClosed);
  }
  // Waits for those inside.
  void Close() {
    uint32_t state = state_.fetch_or(kClosed) | kClosed;
    while (state != kClosed) {
      state_.wait(state);
      state = state_.load();
    }
  }

  void operator()(int64_t) {
    if ((state_.fetch_add(1) & kClosed) == 0) loop_->Help();
    if (state_.fetch_sub(1) == (kClosed | 1)) state_.notify_all();
  }

 private:
  static constexpr uint32_t kClosed = uint32_t{1} << 31;
  std::atomic<uint32_t> state_{kClosed};  // beside the bit: how many are inside
  std::atomic<bool> taken_{true};
  Loop* loop_ = nullptr;
  Gate* next_ = nullptr;
};

// Runs the loop on the executor as far as that will; returns what the executor threw.
std::exception_ptr RunOn(Executor& executor, Loop& loop) {
  std::exception_ptr thrown;
  Gate& gate = Gate::Take();
  gate.Open(loop);
  try {
    executor.ParallelFor(loop.workers, FunctionRef<void(int64_t)>(gate));
  } catch (...) {
    thrown = std::current_exception();
  }
  gate.Close();
  gate.GiveBack();
  return thrown;
}

}  // namespace

int Concurrency(const Executor& executor) {
  const int concurrency = executor.concurrency();
  if (concurrency < 1) Refuse("executor", "expected a concurrency of at least 1, got " + std::to_string(concurrency));
  return concurrency;
}

void RunWorkers(Executor& executor, int64_t workers, FunctionRef<void(int64_t)> work) {
  if (workers > 1) {
    Loop loop{work, workers, {}, {}, {}};
    const std::exception_ptr thrown = RunOn(executor, loop);
    if (loop.failure) std::rethrow_exception(loop.failure);
    if (thrown) std::rethrow_exception(thrown);
  }
  work(0);
}

void RunTasks(Executor& executor, int64_t tasks, FunctionRef<void(int64_t)> task) {
  const int64_t workers = std::min<int64_t>(Concurrency(executor), tasks);
  TaskQueue queue(tasks, tasks);
  RunWorkers(executor, workers, [&](int64_t) { queue.Work([&](int64_t i, int64_t) { task(i); }); });
}

}  // namespace heed::core
