// Trains one model on one task and scores it at every length.
#ifndef HEED_BOOK_TASKS_RUN_H_
#define HEED_BOOK_TASKS_RUN_H_

#include <cstdint>
#include <functional>

#include "book/tasks/options.h"
#include "book/tasks/task.h"
#include "lab/runs/measurements.h"

namespace heed::lab {

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

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_RUN_H_
