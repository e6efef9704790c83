// In which order the tasks of a step are begun. It changes who computes what and when, and no result.
#ifndef HEED_DISPATCH_TASK_ORDER_H_
#define HEED_DISPATCH_TASK_ORDER_H_

#include <algorithm>
#include <cstdint>

#include "core/arena.h"
#include "simd/tuning.h"

namespace heed::dispatch {

// As they are numbered, or the longest first: where workers get few tasks each, what is begun last should be short.
class TaskOrder {
 public:
  TaskOrder() = default;
  // uneven: whether tasks may differ in their work.
  TaskOrder(int64_t tasks, int workers, bool uneven)
      : tasks_(uneven && workers > simd::kFewWorkers && tasks <= simd::kOrderedTasks * workers ? tasks : 0) {}

  // Memory for an order of its own, if it has one.
  void Lay(core::Arena& arena) {
    if (tasks_ > 0) places_ = arena.Take<Place>(tasks_);
  }
  // estimate(task): its work in any unit.
  template <class Estimate>
  void Sort(const Estimate& estimate) {
    if (!places_) return;
    for (int64_t task = 0; task < tasks_; ++task) places_[task] = {estimate(task), task};
    std::sort(places_, places_ + tasks_,
              [](const Place& a, const Place& b) { return a.work != b.work ? a.work > b.work : a.task < b.task; });
  }
  int64_t operator[](int64_t place) const { return places_ ? places_[place].task : place; }

 private:
  struct Place {
    int64_t work, task;
  };
  int64_t tasks_ = 0;
  Place* places_ = nullptr;
};

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_TASK_ORDER_H_
