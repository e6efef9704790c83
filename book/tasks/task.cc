#include "book/tasks/task.h"

#include <algorithm>

#include "heed/error.h"
#include "lab/options/fields.h"

namespace heed::lab {

TaskBatch SequenceTask::Make(int64_t rows, int64_t steps, Random& random) const {
  if (rows < 1 || steps < facts_.shortest) {
    throw InvalidArgument(facts_.id + ": expected at least 1 row and " + std::to_string(facts_.shortest) + " steps, got " +
                          std::to_string(rows) + " and " + std::to_string(steps));
  }
  TaskBatch batch{rows, steps, {}, {}, {}, {}, {}};
  batch.tokens.resize(facts_.symbols > 0 ? rows * steps : 0);
  batch.numbers.resize(rows * steps * facts_.features);
  for (int64_t r = 0; r < rows; ++r) {
    TaskRow row(batch, r, facts_.features);
    fill_(row, random);
  }
  return batch;
}

const Measure& TaskFacts::measure() const {
  static const Measure accuracy = {.name = "accuracy", .label = "accuracy", .digits = 2, .more_is_better = true};
  static const Measure squared_error = {
      .name = "squared_error", .label = "mean squared error", .digits = 2, .significant = true};
  return Classifies() ? accuracy : squared_error;
}

std::vector<std::string> TaskNames() {
  std::vector<std::string> names;
  names.reserve(AllTasks().size());
  for (const SequenceTask& task : AllTasks()) names.push_back(task.facts().id);
  return names;
}

const SequenceTask& TaskNamed(const std::string& id) {
  RequireKnown("tasks", {id}, TaskNames());
  return *std::ranges::find(AllTasks(), id, [](const SequenceTask& task) { return task.facts().id; });
}

}  // namespace heed::lab
