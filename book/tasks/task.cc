#include "book/tasks/task.h"

#include <algorithm>
#include <numeric>

#include "book/tasks/suite/adding.h"
#include "book/tasks/suite/copy.h"
#include "book/tasks/suite/first_token.h"
#include "book/tasks/suite/parity.h"
#include "book/tasks/suite/previous_token.h"
#include "book/tasks/suite/recall.h"
#include "book/tasks/suite/reversal.h"
#include "book/tasks/suite/selective_copy.h"
#include "heed/error.h"
#include "lab/options/choice.h"

namespace heed::lab {

TaskBatch SequenceTask::Make(int64_t rows, int64_t steps, Random& random) const {
  if (rows < 1 || steps < facts_.shortest) {
    throw InvalidArgument(facts_.id + ": expected at least 1 row and " + std::to_string(facts_.shortest) + " steps, got " +
                          std::to_string(rows) + " and " + std::to_string(steps));
  }
  TaskBatch batch{rows, steps, {}, {}, {}, {}, {}};
  batch.tokens.resize(facts_.symbols > 0 ? rows * steps : 0);
  batch.numbers.resize(rows * steps * facts_.features);
  for (int64_t row = 0; row < rows; ++row) Fill(TaskRow(batch, row, facts_.features), random);
  return batch;
}

const Measure& TaskFacts::measure() const {
  static const Measure accuracy = {.name = "accuracy", .label = "accuracy", .digits = 2, .more_is_better = true};
  static const Measure squared_error = {
      .name = "squared_error", .label = "mean squared error", .digits = 2, .significant = true};
  return Classifies() ? accuracy : squared_error;
}

const std::vector<const SequenceTask*>& AllTasks() {
  static const AddingTask adding;
  static const CopyTask copy;
  static const SelectiveCopyTask selective_copy;
  static const RecallTask recall4(4), recall8(8), recall16(16);
  static const ParityTask parity;
  static const ReversalTask reversal;
  static const PreviousTokenTask previous1(1, /*causal=*/true), previous3(3, true), either_side(1, false);
  static const FirstTokenTask first;
  static const std::vector<const SequenceTask*> all = {&adding, &copy,     &selective_copy, &recall4,   &recall8,     &recall16,
                                                       &parity, &reversal, &previous1,      &previous3, &either_side, &first};
  return all;
}

std::vector<std::string> TaskNames() {
  std::vector<std::string> names;
  names.reserve(AllTasks().size());
  for (const SequenceTask* task : AllTasks()) names.push_back(task->facts().id);
  return names;
}

const SequenceTask& TaskNamed(const std::string& id) {
  RequireKnown("tasks", {id}, TaskNames());
  return **std::find_if(AllTasks().begin(), AllTasks().end(), [&](const SequenceTask* task) { return task->facts().id == id; });
}

std::vector<int64_t> DrawDistinct(int64_t count, int64_t bound, Random& random) {
  std::vector<int64_t> all(bound);
  std::iota(all.begin(), all.end(), 0);
  for (int64_t i = 0; i < count; ++i) {  // the first steps of a Fisher-Yates shuffle
    std::swap(all[i], all[i + static_cast<int64_t>(random.Below(bound - i))]);
  }
  all.resize(count);
  return all;
}

}  // namespace heed::lab
