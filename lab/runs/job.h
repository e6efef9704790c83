// Many pieces of long work, side by side, each of which is done once.
#ifndef HEED_LAB_RUNS_JOB_H_
#define HEED_LAB_RUNS_JOB_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/result_store.h"
#include "lab/runs/measurements.h"

namespace heed::lab {

// Told how much more work is done.
using OnWork = std::function<void(int64_t work)>;

struct Job {
  std::string name;                 // of its file in the store
  nlohmann::ordered_json settings;  // all that its outcome depends on beside what the store's results share
  int64_t work = 0;                 // in one unit for all jobs that are done together, as steps of training
  std::string label;                // on the progress bar, before the first number of the outcome
  std::vector<Column> columns;      // of the outcome's values
  // The outcome. Called on a thread of its own, beside other jobs. Throws Interruption on Ctrl-C.
  std::function<Outcome(const OnWork& on_work)> compute;
  // Throws where an outcome lacks something beside its values, which are checked before; none: nothing more to check.
  std::function<void(const Outcome& outcome)> check = {};
  // Whether the outcome tells of times. They depend on what else runs, so the number of jobs side by side is then one of the
  // settings: "runs_side_by_side".
  bool timed = true;
};

// The training of a model with a seed: "PART-MODEL-seed-N". A part of an experiment is an objective or a task.
Job TrainingJob(const std::string& part, const SizedContender& model, int64_t steps, uint64_t seed,
                const nlohmann::ordered_json& settings);

// The outcome of each job. `threads` jobs at a time, see SideBySide, those with the most work first: else the longest could go
// on alone at the end. Outcomes do not depend on the order. Jobs whose outcome the store holds are not done again, finished
// ones are kept at once; without a store all are done and none kept. One progress bar on stderr. Throws the first error of a
// job, with the job's name before what a Divergence says, Error where an outcome is not whole, and Interruption on Ctrl-C.
std::vector<Outcome> DoJobs(const std::string& what, const std::vector<Job>& jobs, const ResultStore* store, int threads,
                            bool quiet);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_JOB_H_
