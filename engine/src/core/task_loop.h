// Runs the tasks of a loop on an executor that need not keep its promises: every task runs once and in time, whatever the
// executor does with what it is given.
#ifndef HEED_CORE_TASK_LOOP_H_
#define HEED_CORE_TASK_LOOP_H_

#include <atomic>
#include <cstdint>

#include "heed/executor.h"
#include "heed/task_observer.h"

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
  // held_back: of how many tasks at the end no worker takes one before it can run it; observer: told of every task, or null.
  TaskQueue(int64_t count, int64_t held_back, TaskObserver* observer = nullptr)
      : count_(count), held_back_(held_back), observer_(observer) {}
  int64_t count() const { return count_; }

  // What one worker has taken: a task, count() or more where none was left, and the one after it. That is taken before the
  // first of them runs, so that its memory can be asked for meanwhile; but not where few are left, -1 then: a worker that has
  // none should get them.
  struct Turn {
    int64_t task, next;
  };
  Turn First() { return Ahead(next_.fetch_add(1)); }
  Turn After(const Turn& turn) { return Ahead(turn.next >= 0 ? turn.next : next_.fetch_add(1)); }

  // As one worker: calls run(task, next) until none is left.
  template <class Run>
  void Work(const Run& run) {
    for (Turn turn = First(); turn.task < count_; turn = After(turn)) {
      if (observer_) observer_->Took(turn.task, count_);
      run(turn.task, turn.next);
    }
  }

  // Within a task: its first `part` of `parts` are done.
  void Pass(int64_t task, int64_t part, int64_t parts) {
    if (observer_) observer_->Passed(task, part, parts);
  }

 private:
  Turn Ahead(int64_t task) {
    if (next_.load() >= count_ - held_back_) return {task, -1};
    const int64_t next = next_.fetch_add(1);
    return {task, next < count_ ? next : -1};
  }

  const int64_t count_, held_back_;
  TaskObserver* const observer_;
  std::atomic<int64_t> next_{0};
};

// Calls task(0) .. task(tasks - 1), each once, in any order.
void RunTasks(Executor& executor, int64_t tasks, FunctionRef<void(int64_t)> task);

}  // namespace heed::core

#endif  // HEED_CORE_TASK_LOOP_H_
