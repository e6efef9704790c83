// The workers of a call: their memory and their tasks.
#ifndef HEED_DISPATCH_WORKERS_H_
#define HEED_DISPATCH_WORKERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "attention/plan.h"
#include "core/arena.h"
#include "core/task_loop.h"
#include "heed/attention.h"
#include "simd/tuning.h"

namespace heed::dispatch {

// Multiply-adds of the score products, the measure of a call's size, with what begins and ends a head in their unit. Those of
// few queries wait for memory. keys: at most so many meet a query.
inline double ScoreWork(const Shape& shape, int64_t keys) {
  const bool few = attention::HasFewQueries(shape);
  const double heads = static_cast<double>(shape.batch) * static_cast<double>(few ? shape.kv_heads : shape.q_heads);
  const double products = static_cast<double>(shape.batch) * static_cast<double>(shape.q_heads) *
                          static_cast<double>(shape.q_len) * static_cast<double>(keys) *
                          static_cast<double>(shape.head_dim + shape.value_dim);
  return (few ? simd::kFewSlowness : 1) * products + simd::kHeadWork * heads;
}

// How many of a call's workers take part in a step of some tasks.
inline int64_t WorkersOf(int workers, double work, int64_t tasks) {
  return work < simd::kSerialWork ? 1 : std::min<int64_t>(workers, tasks);
}

// Of how many tasks no worker takes two at once: all, where they are begun with the longest (dispatch/tasks.h).
inline int64_t TasksHeldBack(int64_t workers) {
  if (workers == 1) return 0;
  return (workers > simd::kFewWorkers ? simd::kOrderedTasks : 2) * workers;
}

// The memory of a call: what all workers share, then an area of its own for each.
class CallMemory {
 public:
  // As many bytes as `shared` and each of `workers` areas counted.
  CallMemory(const core::Arena& shared, const core::Arena& own, int workers) : own_bytes_(own.used()), workers_(workers) {
    core::Arena all;
    all.Take<std::byte>(static_cast<int64_t>(shared.used()));
    first_ = all.used();
    all.Take<std::byte>(static_cast<int64_t>(own_bytes_), workers);
    bytes_ = all.used();
  }

  std::size_t bytes() const { return bytes_; }
  // Of one worker's area.
  std::size_t own_bytes() const { return own_bytes_; }
  // Makes room in a workspace; the shared part begins where it does.
  void Reserve(Workspace& workspace) {
    workspace.Reserve(bytes_);
    data_ = workspace.data();
  }
  std::byte* shared() const { return data_; }

  // Runs work(queue, area of one worker) on as many workers as `work` and the tasks are worth.
  template <class Work>
  void Run(Executor& executor, double work, int64_t tasks, const Work& run) const {
    const int64_t workers = WorkersOf(workers_, work, tasks);
    core::TaskQueue queue(tasks, TasksHeldBack(workers), dynamic_cast<TaskObserver*>(&executor));
    core::RunWorkers(executor, workers,
                     [&](int64_t worker) { run(queue, data_ + first_ + static_cast<std::size_t>(worker) * own_bytes_); });
  }

 private:
  std::size_t own_bytes_, first_ = 0, bytes_ = 0;
  int workers_;
  std::byte* data_ = nullptr;
};

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_WORKERS_H_
