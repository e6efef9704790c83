// Tasks that separate encoders: every model on every task, with every seed, at every length.
#ifndef HEED_BOOK_TASKS_TASKS_H_
#define HEED_BOOK_TASKS_TASKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "book/tasks/options.h"
#include "book/tasks/task.h"
#include "lab/report/environment.h"
#include "lab/report/result_store.h"
#include "lab/runs/measurements.h"

namespace heed::lab {

struct TaskResult {
  const SequenceTask* task;
  Measurements scores;  // see TaskColumns

  // The task's measure at a length of the options.
  Column At(int64_t length) const { return {task->facts().measure(), length}; }
};

struct TasksResult {
  TaskOptions options;
  Environment environment;
  std::vector<TaskResult> tasks;

  int64_t longest() const { return options.lengths.back(); }
};

// The runs go on side by side, under one progress bar named `what`; those that the store holds, where there is one, are not
// repeated (DoJobs). The result is the same for any number of threads, but for the speeds. Throws InvalidArgument that names
// the option, FileError, and Interruption on Ctrl-C.
TasksResult RunTasks(const TaskOptions& options, const std::string& what, const ResultStore* store = nullptr);

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_TASKS_H_
