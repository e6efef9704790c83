#include "lab/training/side_by_side.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>

namespace heed::lab {
namespace {

using Work = std::function<std::string(int64_t task, std::atomic<int64_t>& done)>;

// One thread within an operation for as long as it lives; threads started meanwhile inherit it.
class OneThreadEach {
 public:
  OneThreadEach() : before_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThreadEach() { at::set_num_threads(before_); }
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;

 private:
  int before_;
};

// Workers take the tasks in order; the thread that made them draws the bar.
class Workers {
 public:
  Workers(int64_t tasks, const Work& work) : tasks_(tasks), work_(work) {}

  void Run(int threads, Progress& progress, int64_t done_before) {
    const int count = static_cast<int>(std::min<int64_t>(threads, tasks_));
    working_ = count;
    std::vector<std::thread> workers;
    workers.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) workers.emplace_back([this] { Take(); });
    Watch(progress, done_before);
    for (std::thread& worker : workers) worker.join();
    if (first_error_) std::rethrow_exception(first_error_);
  }

 private:
  void Take() {
    try {
      for (int64_t i = next_++; i < tasks_ && !stop_; i = next_++) {
        std::string note = work_(i, done_);
        const std::lock_guard<std::mutex> lock(mutex_);
        note_ = std::move(note);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!first_error_) first_error_ = std::current_exception();
      stop_ = true;
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    --working_;
    changed_.notify_one();
  }

  void Watch(Progress& progress, int64_t done_before) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (working_ > 0) {
      changed_.wait_for(lock, std::chrono::milliseconds(100));
      progress.Update(done_before + done_, note_);
    }
  }

  int64_t tasks_;
  const Work& work_;
  std::atomic<int64_t> next_{0}, done_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  int working_ = 0;
  std::string note_;
  std::exception_ptr first_error_;
};

}  // namespace

void SideBySide(int64_t tasks, int threads, Progress& progress, int64_t done_before, const Work& work) {
  const OneThreadEach one_thread_each;
  Workers(tasks, work).Run(threads, progress, done_before);
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace heed::lab
