// Sentences computed from what the models scored: other scores, other sentences.
#ifndef HEED_LAB_TASKS_FINDINGS_H_
#define HEED_LAB_TASKS_FINDINGS_H_

#include <string>
#include <vector>

#include "lab/tasks/tasks.h"

namespace heed::lab {

// Those that reach the length, the best mean score first; equal ones in their order. The pointers point into `task`.
std::vector<const TaskModelResult*> Ranked(const TaskResult& task, std::size_t length);

// Which models solve a task at the training length, with every seed; which do no better than chance; which are still right at
// the longest length.
std::string TaskFinding(const TaskResult& task, const TasksResult& result);

// Where the best recurrence, convolution and other encoders beat the best attention, and where they lose: where their spreads
// over the seeds do not touch. `length` is an index of the options' lengths. Empty without attention or without another
// encoder.
std::string FamilyFinding(const TasksResult& result, std::size_t length);

// What attention makes of a task without positions and with its best scheme, over all tasks where that matters. Empty unless
// attention without positions and with a scheme were run.
std::string SchemeFinding(const TasksResult& result);

// The last two at the training length, as one paragraph.
std::string TasksConclusion(const TasksResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_TASKS_FINDINGS_H_
