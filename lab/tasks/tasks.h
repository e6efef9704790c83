// Tasks that separate encoders: every model on every task, with every seed, at every length.
#ifndef HEED_LAB_TASKS_TASKS_H_
#define HEED_LAB_TASKS_TASKS_H_

#include <string>
#include <vector>

#include "lab/report/result_store.h"
#include "lab/runs/spread.h"
#include "lab/tasks/run.h"

namespace heed::lab {

struct TaskModelResult {
  TaskModel model;
  std::vector<TaskRun> runs;  // by seed, at least one

  // `length` is an index of the options' lengths.
  bool Reaches(std::size_t length) const;
  Spread Score(std::size_t length) const;  // needs Reaches
};

struct TaskResult {
  const SequenceTask* task;
  std::vector<TaskModelResult> models;
};

struct TasksResult {
  TaskOptions options;
  std::vector<TaskResult> tasks;

  std::size_t TrainingLength() const;  // its index among the lengths
};

// The runs go on side by side, under one progress bar named `what`; those that the store holds, where there is one, are not
// repeated (DoRuns). The result is the same for any number of threads, but for the speeds. Throws InvalidArgument that names
// the option, FileError, and Interruption on Ctrl-C.
TasksResult RunTasks(const TaskOptions& options, const std::string& what, const ResultStore* store = nullptr);

}  // namespace heed::lab

#endif  // HEED_LAB_TASKS_TASKS_H_
