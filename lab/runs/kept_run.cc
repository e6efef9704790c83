#include "lab/runs/kept_run.h"

#include <atomic>
#include <exception>
#include <optional>

#include "heed/error.h"
#include "lab/report/progress.h"
#include "lab/training/divergence.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

bool Recall(const KeptRun& run, const ResultStore* store) {
  if (store == nullptr) return false;
  const std::optional<nlohmann::ordered_json> kept = store->Find(run.name, run.settings);
  if (!kept) return false;
  try {
    run.take(*kept);
    return true;
  } catch (const std::exception&) {
    return false;  // a damaged result is worth no more than none
  }
}

nlohmann::ordered_json Compute(const KeptRun& run, const std::function<void()>& on_step) {
  try {
    return run.compute(on_step);
  } catch (const Divergence& error) {
    throw Divergence(run.name + ": " + error.what());
  }
}

// Before the result is kept: what is not whole would be found again and again.
std::string Take(const KeptRun& run, const nlohmann::ordered_json& result) {
  try {
    return run.take(result);
  } catch (const std::exception& error) {
    throw Error(run.name + ": the result of the run cannot be used: " + error.what());
  }
}

}  // namespace

void DoRuns(const std::string& what, const std::vector<KeptRun>& runs, const ResultStore* store, int threads, bool quiet) {
  std::vector<const KeptRun*> missing;
  int64_t total = 0, found = 0;
  for (const KeptRun& run : runs) {
    total += run.steps;
    if (Recall(run, store)) {
      found += run.steps;
    } else {
      missing.push_back(&run);
    }
  }
  Progress progress(what, total, quiet, found);
  SideBySide(static_cast<int64_t>(missing.size()), threads, progress, found, [&](int64_t i, std::atomic<int64_t>& done) {
    const KeptRun& run = *missing[static_cast<std::size_t>(i)];
    const nlohmann::ordered_json result = Compute(run, [&done] { ++done; });
    std::string note = Take(run, result);
    if (store != nullptr) store->Keep(run.name, run.settings, result);
    return note;
  });
}

}  // namespace heed::lab
