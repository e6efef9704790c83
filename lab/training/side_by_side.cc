#include "lab/training/side_by_side.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <vector>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

namespace heed::lab {

// Workers take the tasks in order; this thread draws the bar.
void SideBySide(int64_t tasks, int threads, Progress& progress, int64_t done_before,
                const std::function<std::string(int64_t task, std::atomic<int64_t>& done)>& work) {
  const ThreadCount one_thread_each(1);
  std::atomic<int64_t> next{0}, done{0};
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::string note;  // under the mutex
  const auto take = [&] {
    try {
      for (int64_t i = next++; i < tasks && !stop; i = next++) {
        std::string last = work(i, done);
        const std::lock_guard<std::mutex> lock(mutex);
        note = std::move(last);
      }
    } catch (...) {
      stop = true;
      throw;
    }
  };
  std::vector<std::future<void>> workers;
  try {
    for (int64_t i = 0; i < std::min<int64_t>(threads, tasks); ++i) workers.push_back(std::async(std::launch::async, take));
    for (const std::future<void>& worker : workers) {
      std::future_status status = std::future_status::timeout;
      while (status != std::future_status::ready) {
        status = worker.wait_for(std::chrono::milliseconds(100));
        const std::lock_guard<std::mutex> lock(mutex);
        progress.Update(done_before + done, note);
      }
    }
  } catch (...) {
    stop = true;  // the futures wait for their workers
    throw;
  }
  for (std::future<void>& worker : workers) worker.get();
}

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void ComputeWith(int threads) { at::set_num_threads(threads); }
int ComputeThreads() { return at::get_num_threads(); }

std::optional<ComputeError> AsComputeError(const std::exception& error) {
  const auto* own = dynamic_cast<const c10::Error*>(&error);
  if (own == nullptr) return std::nullopt;
  // There is no type for memory of the CPU that cannot be had.
  const std::string text = own->what_without_backtrace();
  const auto says = [&text](const char* words) { return text.find(words) != std::string::npos; };
  return ComputeError{says("DefaultCPUAllocator") || says("calculation overflowed"), text};
}

}  // namespace heed::lab
