// Synthetic tasks whose answers are known: sequences from a seed, at any length, and what is to be predicted from them.
#ifndef HEED_BOOK_TASKS_TASK_H_
#define HEED_BOOK_TASKS_TASK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lab/data/random.h"
#include "lab/runs/measurements.h"

namespace heed::lab {

struct TaskFacts {
  std::string id;                     // "copy": for files, JSON and the command line
  std::string name;                   // "Copy memory"
  std::string definition;             // in one or two sentences, with what is scored
  double chance = 0;                  // of the best predictor that looks at nothing; of classes 1 / outputs
  double solved = 0.95;               // an accuracy of at least this, or an error of at most this
  int64_t symbols = 0, features = 0;  // of the input: tokens below `symbols`, or vectors of numbers
  int64_t outputs = 1;                // classes; 1 for numbers
  bool causal = true;                 // a step sees itself and those before it
  bool translates = false;            // an encoder reads all, a decoder writes the answer; every step is scored
  int64_t layers = 2;                 // that suffice for attention
  int64_t shortest = 1;               // the least number of steps

  bool Classifies() const { return outputs > 1; }
  // "accuracy": the share of scored steps whose most likely class is right. "squared_error": the mean over the scored steps.
  const Measure& measure() const;
};

// Rows end to end.
struct TaskBatch {
  int64_t rows = 0, steps = 0;
  std::vector<int64_t> tokens;   // [rows, steps]; empty for numbers
  std::vector<float> numbers;    // [rows, steps, features]; empty for tokens
  std::vector<int64_t> scored;   // the loss mask: places in the flattened rows, ascending
  std::vector<int64_t> classes;  // the answer at each scored place; empty for numbers
  std::vector<float> values;     // the same for numbers
};

// Where a task writes one sequence.
class TaskRow {
 public:
  TaskRow(TaskBatch& batch, int64_t row, int64_t features) : batch_(batch), row_(row), features_(features) {}
  int64_t steps() const { return batch_.steps; }
  int64_t& token(int64_t step) { return batch_.tokens[Place(step)]; }
  float& number(int64_t step, int64_t feature) { return batch_.numbers[Place(step) * features_ + feature]; }
  // Each step once, in ascending order.
  void ScoreClass(int64_t step, int64_t answer) {
    batch_.scored.push_back(Place(step));
    batch_.classes.push_back(answer);
  }
  void ScoreNumber(int64_t step, double answer) {
    batch_.scored.push_back(Place(step));
    batch_.values.push_back(static_cast<float>(answer));
  }

 private:
  int64_t Place(int64_t step) const { return row_ * batch_.steps + step; }

  TaskBatch& batch_;
  int64_t row_, features_;
};

class SequenceTask {
 public:
  // Writes one sequence; tokens and numbers are 0 at first.
  using Fill = std::function<void(TaskRow& row, Random& random)>;

  SequenceTask(TaskFacts facts, Fill fill) : facts_(std::move(facts)), fill_(std::move(fill)) {
    if (facts_.Classifies()) facts_.chance = 1.0 / static_cast<double>(facts_.outputs);
  }

  const TaskFacts& facts() const { return facts_; }
  // The same batch for the same state of the generator, on every machine. Throws InvalidArgument where steps are fewer than the
  // shortest, or rows fewer than one.
  TaskBatch Make(int64_t rows, int64_t steps, Random& random) const;

 private:
  TaskFacts facts_;
  Fill fill_;
};

// Adding, copy, selective copy, recall, parity, reversal, then the toy tasks of positions.
const std::vector<SequenceTask>& AllTasks();
std::vector<std::string> TaskNames();
// Throws InvalidArgument that lists the names.
const SequenceTask& TaskNamed(const std::string& id);

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_TASK_H_
