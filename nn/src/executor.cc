#include "executor.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include <ATen/Parallel.h>
#include <torch/csrc/stable/c/shim.h>

#include "heed/error.h"

namespace heed::nn {
namespace {

// Threads take tasks one by one, so that tasks of unequal size (causal attention) keep all of them busy.
class TaskQueue {
 public:
  TaskQueue(int64_t tasks, FunctionRef<void(int64_t)> task) : tasks_(tasks), task_(task) {}

  static void Work(int64_t, int64_t, void* queue) { static_cast<TaskQueue*>(queue)->Drain(); }

  void RethrowFirst() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  void Drain() {
    for (int64_t i = next_.fetch_add(1); i < tasks_; i = next_.fetch_add(1)) {
      try {
        task_(i);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (!first_) first_ = std::current_exception();
      }
    }
  }

  const int64_t tasks_;
  const FunctionRef<void(int64_t)> task_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace

TorchExecutor::TorchExecutor() : concurrency_(at::in_parallel_region() ? 1 : std::max(1, at::get_num_threads())) {}

void TorchExecutor::ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) {
  TaskQueue queue(tasks, task);
  const int64_t threads = std::min<int64_t>(tasks, concurrency_);
  if (threads <= 1 || at::in_parallel_region()) {
    TaskQueue::Work(0, 1, &queue);
  } else if (torch_parallel_for(0, threads, 1, &TaskQueue::Work, &queue) != AOTI_TORCH_SUCCESS) {
    // Out of line on purpose: the template at::parallel_for runs on one thread in a file compiled without OpenMP.
    throw Error("PyTorch could not start its threads");
  }
  queue.RethrowFirst();
}

}  // namespace heed::nn
