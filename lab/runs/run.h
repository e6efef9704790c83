// Many pieces of long work, side by side, each of which is done once.
#ifndef HEED_LAB_RUNS_RUN_H_
#define HEED_LAB_RUNS_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/result_store.h"

namespace heed::lab {

// Told how much more work is done.
using OnWork = std::function<void(int64_t work)>;

struct Run {
  std::string name;                 // of its file in the store
  nlohmann::ordered_json settings;  // all that its result depends on beside what the store's results share
  int64_t work = 0;                 // in one unit for all runs that are done together, as steps of training
  // Whether the result tells of times. They depend on what else runs, so the number of runs side by side is then one of the
  // settings: "runs_side_by_side".
  bool timed = true;
  // The result. Called on a thread of its own, beside other runs. Throws Interruption on Ctrl-C.
  std::function<nlohmann::ordered_json(const OnWork& on_work)> compute;
  // Takes a result, fresh or from the store, and returns a few words about it for the progress bar. Throws where the result is
  // not whole; one from the store is then computed again.
  std::function<std::string(const nlohmann::ordered_json& result)> take;
};

// `threads` runs at a time, see SideBySide, those with the most work first: else the longest could go on alone at the end.
// Results do not depend on the order. Runs that the store holds are not repeated, finished ones are kept at once; without a
// store all are done and none kept. One progress bar on stderr. Throws the first error of a run, with the run's name before
// what a Divergence says, and Interruption on Ctrl-C.
void DoRuns(const std::string& what, const std::vector<Run>& runs, const ResultStore* store, int threads, bool quiet);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_RUN_H_
