// Runs the tasks of a loop on an executor that need not keep its promises: every task runs once and in time, whatever the
// executor does with what it is given.
#ifndef HEED_CORE_TASK_LOOP_H_
#define HEED_CORE_TASK_LOOP_H_

#include <atomic>
#include <cstdint>

#include "heed/executor.h"

namespace heed::core {

// executor.concurrency(), asked for once; throws InvalidArgument when it is below 1.
int Concurrency(const Executor& executor);

// Calls work(w) on threads of the executor, at the same time for different w in 0 .. workers - 1 and at most once for each, and
// at last work(0) on the calling thread. work takes tasks from a common queue until it is empty. No call outlasts this one:
// an executor that calls too late, too often or with other numbers does nothing. Throws what work or the executor throws.
void RunWorkers(Executor& executor, int64_t workers, FunctionRef<void(int64_t)> work);

// The numbers 0 .. count - 1, each for whichever worker asks first. Uneven tasks then balance, and since no task depends on
// another the results do not show who ran it.
class TaskQueue {
 public:
  explicit TaskQueue(int64_t count) : count_(count) {}
  int64_t count() const { return count_; }

  // As one worker: calls run(task, next) until none is left. The next task, -1 after the last, is taken before this one runs,
  // so that its memory can be asked for meanwhile.
  template <class Run>
  void Work(const Run& run) {
    for (int64_t task = next_.fetch_add(1); task < count_;) {
      const int64_t next = next_.fetch_add(1);
      run(task, next < count_ ? next : -1);
      task = next;
    }
  }

 private:
  const int64_t count_;
  std::atomic<int64_t> next_{0};
};

// Calls task(0) .. task(tasks - 1), each once, in any order.
void RunTasks(Executor& executor, int64_t tasks, FunctionRef<void(int64_t)> task);

}  // namespace heed::core

#endif  // HEED_CORE_TASK_LOOP_H_
