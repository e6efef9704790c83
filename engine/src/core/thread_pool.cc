#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "heed/error.h"
#include "heed/executor.h"

namespace heed {
namespace {

// True on threads that are running a task of any pool: a nested call then stays on its thread.
thread_local bool inside_task = false;

// Threads a cgroup (v2) quota allows, or a large number without one.
int CgroupThreads() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 1 << 16;
  try {
    return std::max(1, static_cast<int>(std::stod(quota) / period));
  } catch (const std::exception&) {
    return 1 << 16;
  }
}

}  // namespace

int AvailableThreads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int affinity =
      sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, std::min(affinity, CgroupThreads()));
}

// One parallel loop at a time: `turn` is held by its caller. Workers sleep until `generation` changes, then take task numbers
// from `next` until none is left; the caller takes part and waits until no worker is active.
struct ThreadPool::State {
  explicit State(int count) : threads(count) {}

  const int threads;
  std::mutex turn;
  std::mutex mutex;
  std::condition_variable start, done;
  std::vector<std::thread> workers;
  std::atomic<pid_t> owner{0};  // process that started the workers; a forked child starts its own

  uint64_t generation = 0;
  bool stop = false;
  int active = 0;
  int64_t tasks = 0;
  FunctionRef<void(int64_t)>* task = nullptr;
  std::atomic<int64_t> next{0};
  std::exception_ptr failure;

  void Work() {
    inside_task = true;
    for (int64_t i = next.fetch_add(1); i < tasks; i = next.fetch_add(1)) {
      try {
        (*task)(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
    inside_task = false;
  }

  void Loop() {
    uint64_t seen = 0;
    std::unique_lock lock(mutex);
    while (true) {
      start.wait(lock, [&] { return stop || generation != seen; });
      if (stop) return;
      seen = generation;
      lock.unlock();
      Work();
      lock.lock();
      if (--active == 0) done.notify_one();
    }
  }

  void StartWorkers() {
    owner = getpid();
    generation = 0;
    for (int i = 1; i < threads; ++i) workers.emplace_back([this] { Loop(); });
  }

  void StopWorkers() {
    if (owner != getpid()) {  // the threads stayed in the parent
      for (std::thread& worker : workers) worker.detach();
    } else {
      {
        const std::lock_guard lock(mutex);
        stop = true;
      }
      start.notify_all();
      for (std::thread& worker : workers) worker.join();
    }
    workers.clear();
    stop = false;
  }
};

ThreadPool::ThreadPool(int threads) {
  if (threads < 0) throw InvalidArgument("threads: expected at least 0, got " + std::to_string(threads));
  state_ = std::make_unique<State>(threads == 0 ? AvailableThreads() : threads);
}

ThreadPool::~ThreadPool() {
  if (state_ && state_->owner != 0) state_->StopWorkers();
}

int ThreadPool::concurrency() const { return inside_task ? 1 : state_->threads; }

void ThreadPool::ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) {
  if (tasks <= 1 || state_->threads == 1 || inside_task) {
    for (int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  const pid_t owner = state_->owner;
  if (owner != 0 && owner != getpid()) {
    // After fork() locks and condition variables may be in any state: start from a fresh pool and leave the old one behind.
    const int threads = state_->threads;
    static_cast<void>(state_.release());
    state_ = std::make_unique<State>(threads);
  }
  State& state = *state_;
  const std::lock_guard turn(state.turn);
  if (state.owner == 0) state.StartWorkers();
  {
    const std::lock_guard lock(state.mutex);
    state.tasks = tasks;
    state.task = &task;
    state.failure = nullptr;
    state.next.store(0);
    state.active = static_cast<int>(state.workers.size());
    ++state.generation;
  }
  state.start.notify_all();
  state.Work();
  std::unique_lock lock(state.mutex);
  state.done.wait(lock, [&] { return state.active == 0; });
  if (state.failure) std::rethrow_exception(std::exchange(state.failure, nullptr));
}

ThreadPool& ThreadPool::Default() {
  static ThreadPool pool;
  return pool;
}

}  // namespace heed
