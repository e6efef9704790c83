#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
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
    return static_cast<int>(std::clamp(std::stod(quota) / period, 1.0, 65536.0));
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

namespace {

// The threads of one process. One parallel loop at a time: `turn` is held by its caller. It offers seats, one less than there
// are tasks; a sleeping worker that takes a seat takes task numbers from `next` until none is left. The caller takes part,
// withdraws the seats that nobody has come for, and waits until no worker is active.
class Crew {
 public:
  explicit Crew(int threads) : threads_(threads) {}
  ~Crew() { Stop(); }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Whether its threads live in the calling process. After fork() the child has a copy without them, whose locks and condition
  // variables may be in any state: it can be neither used nor destroyed.
  bool here() const { return process_ == getpid(); }

  void Run(int64_t tasks, FunctionRef<void(int64_t)> task) {
    const std::lock_guard turn(turn_);
    if (!started_) Start();
    {
      const std::lock_guard lock(mutex_);
      tasks_ = tasks;
      task_ = &task;
      failure_ = nullptr;
      next_.store(0);
      seats_ = static_cast<int>(std::min<int64_t>(tasks - 1, static_cast<int64_t>(workers_.size())));
      for (int seat = 0; seat < seats_; ++seat) start_.notify_one();
    }
    Work();
    if (!here()) throw Error("the process was forked inside a task; its other tasks stayed in the parent");
    std::unique_lock lock(mutex_);
    seats_ = 0;
    done_.wait(lock, [&] { return active_ == 0; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  Crew* abandoned = nullptr;  // the next in the list of those left behind

 private:
  void Work() {
    inside_task = true;
    for (int64_t i = next_.fetch_add(1); i < tasks_; i = next_.fetch_add(1)) {
      try {
        (*task_)(i);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
    }
    inside_task = false;
  }

  void Loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      start_.wait(lock, [&] { return stop_ || seats_ > 0; });
      if (stop_) return;
      --seats_;
      ++active_;
      lock.unlock();
      Work();
      lock.lock();
      if (--active_ == 0) done_.notify_one();
    }
  }

  // Where the system has no more threads to give, fewer do the same work.
  void Start() {
    started_ = true;
    try {
      for (int i = 1; i < threads_; ++i) workers_.emplace_back([this] { Loop(); });
    } catch (const std::system_error&) {
    }
  }

  void Stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    start_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  const int threads_;
  const pid_t process_ = getpid();
  std::mutex turn_;
  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::vector<std::thread> workers_;
  bool started_ = false;

  bool stop_ = false;
  int seats_ = 0, active_ = 0;  // workers that may still come, that are at work
  int64_t tasks_ = 0;
  const FunctionRef<void(int64_t)>* task_ = nullptr;
  std::atomic<int64_t> next_{0};
  std::exception_ptr failure_;
};

// Keeps a crew that stayed in the parent where leak detectors find it.
void Abandon(Crew* crew) {
  static std::atomic<Crew*> all{nullptr};
  crew->abandoned = all.load();
  while (!all.compare_exchange_weak(crew->abandoned, crew)) {
  }
}

}  // namespace

struct ThreadPool::State {
  const int threads;
  std::atomic<Crew*> crew{nullptr};

  // That of this process, made on first use; several threads may come first at once.
  Crew& Current() {
    Crew* found = crew.load();
    while (!found || !found->here()) {
      auto fresh = std::make_unique<Crew>(threads);
      if (!crew.compare_exchange_strong(found, fresh.get())) continue;
      if (found) Abandon(found);
      return *fresh.release();
    }
    return *found;
  }

  ~State() {
    Crew* last = crew.load();
    if (!last) return;
    if (last->here()) {
      delete last;
    } else {
      Abandon(last);
    }
  }
};

ThreadPool::ThreadPool(int threads) {
  if (threads < 0) throw InvalidArgument("threads: expected at least 0, got " + std::to_string(threads));
  state_ = std::make_unique<State>(threads == 0 ? AvailableThreads() : threads);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::concurrency() const { return inside_task ? 1 : state_->threads; }

void ThreadPool::ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) {
  if (tasks <= 1 || state_->threads == 1 || inside_task) {
    for (int64_t i = 0; i < tasks; ++i) task(i);
    return;
  }
  state_->Current().Run(tasks, task);
}

ThreadPool& ThreadPool::Default() {
  static ThreadPool pool;
  return pool;
}

}  // namespace heed
