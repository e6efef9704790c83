// Watches the progress of a call and ends it early.
#ifndef HEED_TASK_OBSERVER_H_
#define HEED_TASK_OBSERVER_H_

#include <cstdint>

namespace heed {

// Derive an Executor from this class too, and every attention call on it reports its tasks. A call runs its steps one after the
// other: panels or splits and their merge forward; chunks and sums backward.
class TaskObserver {
 public:
  virtual ~TaskObserver() = default;

  // Called before a task, on its thread, concurrently with other threads. `place`, 0 .. tasks - 1, is the task's place in its
  // step of `tasks` tasks. An exception ends this worker and reaches the caller when the other workers have ended; to end a
  // call soon, throw every time.
  virtual void Took(int64_t place, int64_t tasks) = 0;

  // Called within a task of several parts, on its thread, after `part` of `parts`. Exceptions act as in Took.
  virtual void Passed(int64_t /*place*/, int64_t /*part*/, int64_t /*parts*/) {}
};

}  // namespace heed

#endif  // HEED_TASK_OBSERVER_H_
