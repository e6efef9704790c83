#include "lab/runs/run.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>

#include "heed/error.h"
#include "lab/report/progress.h"
#include "lab/training/divergence.h"
#include "lab/training/interrupt.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

nlohmann::ordered_json SettingsOf(const Run& run, int threads) {
  nlohmann::ordered_json settings = run.settings;
  if (run.timed) settings["runs_side_by_side"] = threads;
  return settings;
}

bool Recall(const Run& run, const ResultStore* store, int threads) {
  if (store == nullptr) return false;
  const std::optional<nlohmann::ordered_json> kept = store->Find(run.name, SettingsOf(run, threads));
  if (!kept) return false;
  try {
    run.take(*kept);
    return true;
  } catch (const std::exception&) {
    return false;  // a damaged result is worth no more than none
  }
}

nlohmann::ordered_json Compute(const Run& run, const OnWork& on_work) {
  try {
    return run.compute(on_work);
  } catch (const Divergence& error) {
    throw Divergence(run.name + ": " + error.what());
  }
}

// Before the result is kept: what is not whole would be found again and again.
std::string Take(const Run& run, const nlohmann::ordered_json& result) {
  try {
    return run.take(result);
  } catch (const std::exception& error) {
    throw Error(run.name + ": the result of the run cannot be used: " + error.what());
  }
}

void DoAll(const std::string& what, const std::vector<Run>& runs, const ResultStore* store, int threads, bool quiet) {
  std::vector<const Run*> missing;
  int64_t total = 0, found = 0;
  for (const Run& run : runs) {
    total += run.work;
    if (Recall(run, store, threads)) {
      found += run.work;
    } else {
      missing.push_back(&run);
    }
  }
  std::ranges::stable_sort(missing, [](const Run* a, const Run* b) { return a->work > b->work; });
  Progress progress(what, total, quiet, found);
  SideBySide(static_cast<int64_t>(missing.size()), threads, progress, found, [&](int64_t i, std::atomic<int64_t>& done) {
    const Run& run = *missing[static_cast<std::size_t>(i)];
    const nlohmann::ordered_json result = Compute(run, [&done](int64_t work) { done += work; });
    std::string note = Take(run, result);
    if (store != nullptr) store->Keep(run.name, SettingsOf(run, threads), result);
    return note;
  });
}

}  // namespace

void DoRuns(const std::string& what, const std::vector<Run>& runs, const ResultStore* store, int threads, bool quiet) {
  try {
    DoAll(what, runs, store, threads, quiet);
  } catch (const Interruption&) {
    if (store == nullptr) throw;
    throw Interruption("interrupted; finished runs are kept in " + store->folder().string() +
                       ", and the same command goes on from there");
  }
}

}  // namespace heed::lab
