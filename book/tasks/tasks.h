// Tasks that separate encoders: every model on every task, with every seed, at every length.
#ifndef HEED_BOOK_TASKS_TASKS_H_
#define HEED_BOOK_TASKS_TASKS_H_

#include <cstdint>
#include <functional>
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

// The models of a task, in the order of the options. The widths of their feed-forward sublayers are chosen so that each comes
// as near as it can to the parameters of attention without positions and a feed-forward width of twice the width.
Models PlanTask(const SequenceTask& task, const TaskOptions& options);

// The task's measure at each length of the options, NaN where the model or the task does not reach; then "training_loss", the
// mean over the last tenth of the steps, and "step_seconds", the thread's own time in a step.
std::vector<Column> TaskColumns(const SequenceTask& task, const TaskOptions& options);

// Trains in the calling thread; several calls may run side by side. Runs of one seed see the same sequences, whatever the
// model; those of an evaluation are the same for all seeds too. Throws Divergence, and Interruption on Ctrl-C.
Outcome TrainOnTask(const SequenceTask& task, const SizedContender& model, const TaskOptions& options, uint64_t seed,
                    const std::function<void()>& on_step);

// The runs go on side by side, under one progress bar named `what`; those that the store holds, where there is one, are not
// repeated (DoJobs). The result is the same for any number of threads, but for the speeds. Throws InvalidArgument that names
// the option, FileError, and Interruption on Ctrl-C.
TasksResult RunTasks(const TaskOptions& options, const std::string& what, const ResultStore* store = nullptr);

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_TASKS_H_
