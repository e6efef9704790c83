// One model trained on one task, and how it fares at every length.
#ifndef HEED_LAB_TASKS_RUN_H_
#define HEED_LAB_TASKS_RUN_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/runs/feed_forward.h"
#include "lab/tasks/options.h"
#include "lab/tasks/task.h"

namespace heed::lab {

using TaskModel = SizedContender;

struct TaskRun {
  uint64_t seed = 0;
  std::vector<double> scores;  // accuracy or mean squared error, by length; NaN where the model or the task does not reach
  double loss = 0;             // of training, mean over the last tenth of the steps
  double step_seconds = 0;     // of training: the thread's own time
};

inline constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();

// The models of a task, in the order of the options. The widths of their feed-forward sublayers are chosen so that each comes
// as near as it can to the parameters of attention without positions and a feed-forward width of twice the width.
std::vector<TaskModel> PlanTask(const SequenceTask& task, const TaskOptions& options);

// Trains in the calling thread; several calls may run side by side. Runs of one seed see the same sequences, whatever the
// model; those of an evaluation are the same for all seeds too. Throws Divergence, and Interruption on
// Ctrl-C.
TaskRun TrainOnTask(const SequenceTask& task, const TaskModel& model, const TaskOptions& options, uint64_t seed,
                    const std::function<void()>& on_step);

// Numbers survive the way to JSON and back bit by bit; NaN becomes null.
nlohmann::ordered_json ToJson(const TaskRun& run);
// Throws nlohmann::json::exception or InvalidArgument where the JSON does not hold a run of so many lengths.
TaskRun TaskRunFromJson(const nlohmann::ordered_json& json, std::size_t lengths);

}  // namespace heed::lab

#endif  // HEED_LAB_TASKS_RUN_H_
