// Many training runs, side by side, each of which is done once.
#ifndef HEED_LAB_RUNS_KEPT_RUN_H_
#define HEED_LAB_RUNS_KEPT_RUN_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/result_store.h"

namespace heed::lab {

struct KeptRun {
  std::string name;                 // of its file in the store
  nlohmann::ordered_json settings;  // all that its result depends on beside what the store's results share
  int64_t steps = 0;
  // The result. Called on a thread of its own, beside other runs; reports each step that is done. Throws Interruption on
  // Ctrl-C.
  std::function<nlohmann::ordered_json(const std::function<void()>& on_step)> compute;
  // Takes a result, fresh or from the store, and returns a few words about it for the progress bar. Throws where the result is
  // not whole; one from the store is then computed again.
  std::function<std::string(const nlohmann::ordered_json& result)> take;
};

// `threads` runs at a time, see SideBySide. Runs that the store holds are not repeated, finished ones are kept at once; without
// a store all are done and none kept. One progress bar on stderr. Throws the first error of a run, with the run's name before
// what a Divergence says, and Interruption on Ctrl-C.
void DoRuns(const std::string& what, const std::vector<KeptRun>& runs, const ResultStore* store, int threads, bool quiet);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_KEPT_RUN_H_
