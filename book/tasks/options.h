// Which tasks, which models, how large, how long.
#ifndef HEED_BOOK_TASKS_OPTIONS_H_
#define HEED_BOOK_TASKS_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "book/tasks/task.h"
#include "lab/options/fields.h"

namespace heed::lab {

struct TaskOptions {
  std::string budget = "default";
  std::vector<std::string> tasks;      // of TaskNames()
  std::vector<std::string> encoders;   // of EncoderNames()
  std::vector<std::string> positions;  // of attention; of PositionSchemeNames()
  int64_t length = 32;                 // steps in training
  std::vector<int64_t> lengths;        // steps of evaluations, increasing; the training length is one of them
  int64_t layers = 0;                  // 0: the task's own
  int64_t heads = 4, width = 64;
  int64_t batch = 16;       // sequences a step
  int64_t steps = 1000;     // of training
  int64_t evaluated = 256;  // sequences of each length
  int64_t seeds = 3;        // runs of each model, with seeds seed, seed + 1, ..
  double lr = 6e-3;
  std::string query_key_norm = "none";  // of QueryKeyNormNames(), of all models of attention
  uint64_t seed = 0;
  int threads = 1;    // runs side by side, each with one thread; results do not depend on it
  bool quiet = true;  // no messages and no progress on stderr

  int64_t LayersFor(const SequenceTask& task) const { return layers > 0 ? layers : task.facts().layers; }
};

// "quick", "default" or "long", by the table in docs/tasks.md; throws InvalidArgument that lists them.
TaskOptions TaskBudget(const std::string& budget);

Fields FieldsOf(TaskOptions& options);

// Those that are chosen; where all are, those that fit into the training length.
std::vector<std::string> TasksOf(const TaskOptions& options);

// Throws InvalidArgument that names the option and what it may be.
void Validate(const TaskOptions& options);

// The command that gives the same numbers, in this folder.
std::string CommandOf(const TaskOptions& options, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_OPTIONS_H_
