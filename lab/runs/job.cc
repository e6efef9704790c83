#include "lab/runs/job.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/report/progress.h"
#include "lab/training/interrupt.h"
#include "lab/training/side_by_side.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

Json SettingsOf(const Job& job, int threads) {
  Json settings = job.settings;
  if (job.timed) settings["runs_side_by_side"] = threads;
  return settings;
}

// Throws where a number is missing that every outcome of the job has; findings count on it, and a kept file may hold anything.
void RequireWhole(const Job& job, const Outcome& outcome) {
  const bool all = outcome.values.size() == job.columns.size();
  for (std::size_t i = 0; i < job.columns.size(); ++i) {
    if (!all || (!job.columns[i].optional && !std::isfinite(outcome.values[i])))
      throw InvalidArgument(job.columns[i].measure.name + " is missing");
  }
  if (job.check) job.check(outcome);
}

std::optional<Outcome> Recall(const Job& job, const ResultStore* store, int threads) {
  if (store == nullptr) return std::nullopt;
  const std::optional<Json> kept = store->Find(job.name, SettingsOf(job, threads));
  if (!kept) return std::nullopt;
  try {
    Outcome outcome = OutcomeFromJson(*kept);
    RequireWhole(job, outcome);
    return outcome;
  } catch (const std::exception&) {
    return std::nullopt;  // a damaged result is worth no more than none
  }
}

Outcome Compute(const Job& job, const OnWork& on_work) {
  Outcome outcome;
  try {
    outcome = job.compute(on_work);
  } catch (const Divergence& error) {
    throw Divergence(job.name + ": " + error.what());
  }
  try {
    RequireWhole(job, outcome);  // before it is kept: what is not whole would be found again and again
  } catch (const std::exception& error) {
    throw Error(job.name + ": the outcome cannot be used: " + error.what());
  }
  return outcome;
}

// "causal, GRU: 1.402 nats per character".
std::string Note(const Job& job, const Outcome& outcome) {
  for (std::size_t i = 0; i < job.columns.size(); ++i) {
    const double value = outcome.values[i];
    if (std::isfinite(value)) return job.label + ": " + job.columns[i].measure.Phrase({value, value, value});
  }
  return job.label;
}

}  // namespace

Job TrainingJob(const std::string& part, const SizedContender& model, int64_t steps, uint64_t seed, const Json& settings) {
  Job job;
  job.name = fmt::format("{}-{}-seed-{}", part, model.Id(), seed);
  job.settings = {{"encoder", model.encoder},
                  {"position", model.position},
                  {"ffn_width", model.ffn_width},
                  {"steps", steps},
                  {"seed", seed}};
  job.settings.update(settings);
  job.work = steps;
  job.label = part + ", " + model.Label();
  return job;
}

std::vector<Outcome> DoJobs(const std::string& what, const std::vector<Job>& jobs, const ResultStore* store, int threads,
                            bool quiet) {
  std::vector<Outcome> outcomes(jobs.size());
  std::vector<std::size_t> missing;
  int64_t total = 0, found = 0;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    total += jobs[i].work;
    if (std::optional<Outcome> kept = Recall(jobs[i], store, threads)) {
      found += jobs[i].work;
      outcomes[i] = std::move(*kept);
    } else {
      missing.push_back(i);
    }
  }
  std::ranges::stable_sort(missing, std::ranges::greater(), [&](std::size_t i) { return jobs[i].work; });
  Progress progress(what, total, quiet, found);
  try {
    SideBySide(std::ssize(missing), threads, progress, found, [&](int64_t next, std::atomic<int64_t>& done) {
      const std::size_t i = missing[static_cast<std::size_t>(next)];
      const Job& job = jobs[i];
      outcomes[i] = Compute(job, [&done](int64_t work) { done += work; });
      if (store != nullptr) store->Keep(job.name, SettingsOf(job, threads), ToJson(outcomes[i]));
      return Note(job, outcomes[i]);
    });
  } catch (const Interruption&) {
    if (store == nullptr) throw;
    throw Interruption("interrupted; finished runs are kept in " + store->folder().string() +
                       ", and the same command goes on from there");
  }
  return outcomes;
}

}  // namespace heed::lab
