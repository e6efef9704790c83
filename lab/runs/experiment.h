// An experiment: parts, models of equal size, seeds; every model is trained on every part with every seed and measured.
#ifndef HEED_LAB_RUNS_EXPERIMENT_H_
#define HEED_LAB_RUNS_EXPERIMENT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/result_store.h"
#include "lab/runs/measurements.h"

namespace heed::lab {

struct Part {
  std::string id;                   // begins the names of its runs: "causal"; empty where an experiment has one part
  Models models;                    // their Ids differ
  std::vector<Column> columns;      // what every run measures
  int64_t steps = 0;                // of a run's training, which `train` reports one by one
  nlohmann::ordered_json settings;  // what its runs depend on beside model, steps, seed and what the store's results share
  // Trains and measures in the calling thread; several calls run side by side. Throws Divergence, and Interruption on Ctrl-C.
  std::function<Outcome(const SizedContender& model, uint64_t seed, const std::function<void()>& on_step)> train;
  // Throws where what a run yields beside its numbers is not whole; none: there is nothing to check.
  std::function<void(const nlohmann::ordered_json& more)> check = {};
  int64_t seeds = 0;  // runs of a model; 0: as the conduct says
  bool timed = true;  // whether what is measured tells of times, see Run
};

struct Conduct {
  uint64_t seed = 0;  // runs of a model have the seeds seed, seed + 1, ..
  int64_t seeds = 1;
  int threads = 1;  // runs side by side, each with one thread; but for times, results do not depend on it
  bool quiet = true;
};

// The measurements of each part, in order, under one progress bar named `what`. Runs that the store holds, where there is one,
// are not repeated (DoRuns). Throws what a run throws.
std::vector<Measurements> RunParts(const std::string& what, const std::vector<Part>& parts, const Conduct& conduct,
                                   const ResultStore* store);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_EXPERIMENT_H_
