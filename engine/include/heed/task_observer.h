// Progress of a call, and how to end it early.
#ifndef HEED_TASK_OBSERVER_H_
#define HEED_TASK_OBSERVER_H_

#include <cstdint>

namespace heed {

// An Executor that derives from this class too is told of the tasks of every attention call that runs on it. A call
// runs its steps one after the other: panels or splits and their merge forward; chunks and sums backward.
class TaskObserver {
 public:
  virtual ~TaskObserver() = default;

  // Before a task begins, on the thread that will compute it and at the same time as on others: `place` 0 .. tasks - 1 is its
  // place in the order of its step, which has `tasks` of them. What it throws ends this worker, and is thrown to the caller
  // when the others have come to their end; to end a call soon, throw every time.
  virtual void Took(int64_t place, int64_t tasks) = 0;

  // Within a task that consists of several parts, on its thread: `part` of its `parts` is done. Throws likewise.
  virtual void Passed(int64_t /*place*/, int64_t /*part*/, int64_t /*parts*/) {}
};

}  // namespace heed

#endif  // HEED_TASK_OBSERVER_H_
