// Runs the tasks of a loop on an executor that need not keep its promises: every task runs once and in time, whatever the
// executor does with what it is given.
#ifndef HEED_CORE_TASK_LOOP_H_
#define HEED_CORE_TASK_LOOP_H_

#include <cstdint>

#include "heed/executor.h"

namespace heed::core {

// executor.concurrency(), asked for once; throws InvalidArgument when it is below 1.
int Concurrency(const Executor& executor);

// Calls work(w) on threads of the executor, at the same time for different w in 0 .. workers - 1 and at most once for each, and
// at last work(0) on the calling thread. work takes tasks from a common queue until it is empty. No call outlasts this one:
// an executor that calls too late, too often or with other numbers does nothing. Throws what work or the executor throws.
void RunWorkers(Executor& executor, int64_t workers, FunctionRef<void(int64_t)> work);

// Calls task(0) .. task(tasks - 1), each once, in any order.
void RunTasks(Executor& executor, int64_t tasks, FunctionRef<void(int64_t)> task);

}  // namespace heed::core

#endif  // HEED_CORE_TASK_LOOP_H_
