// A contest: contenders of equal size train for equal time, each at the learning rate that suits it, and are judged by data
// that nothing was chosen by.
#ifndef HEED_LAB_RUNS_CONTEST_H_
#define HEED_LAB_RUNS_CONTEST_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/result_store.h"
#include "lab/runs/measurements.h"
#include "lab/runs/verdict.h"

namespace heed::lab {

// One training, with a schedule of its own: the warm-up and the fall of the rate fill its steps.
struct Trial {
  const SizedContender& model;
  int64_t steps;
  double rate;
  uint64_t seed;
};
using OnStep = std::function<void()>;

// What is contested: models, how they are trained and measured. The functions are called side by side, each training in the
// calling thread, and may throw Divergence, which is a result, and Interruption on Ctrl-C.
class Contest {
 public:
  virtual ~Contest() = default;

  std::string id;  // begins the names of its jobs: "causal"
  Models models;   // their Ids differ
  // What its trainings depend on beside model, steps, rate, seed and what the store's results share.
  nlohmann::ordered_json settings;
  // What is measured of a model, "loss" on the test part first and "validation_loss" among them.
  std::vector<Column> columns;
  std::vector<double> weights;  // of the blocks of the test part: how many predictions each holds

  // The loss on the validation part after training.
  virtual double Validate(const Trial& trial, const OnStep& on_step) const = 0;
  // What is measured after training, with the loss on each block.
  virtual Outcome Report(const Trial& trial, const OnStep& on_step) const = 0;
  // The thread's own seconds in a step of training, measured while nothing else of this program runs.
  virtual double StepSeconds(const SizedContender& model) const = 0;
};

struct Conduct {
  uint64_t seed = 0;  // runs of a model have the seeds seed, seed + 1, ..
  int64_t seeds = 1;
  int threads = 1;  // runs side by side, each with one thread; but for times, results do not depend on it
  bool quiet = true;
};

struct ContestOptions {
  double seconds = 0;         // of each training, which a pilot turns into steps once;
  int64_t steps = 0;          // or steps of each training, where not 0, and there is no pilot
  std::vector<double> rates;  // those to choose among, rising
  // Of each model, in order: what the pilot is to have measured; empty: it measures.
  std::vector<double> step_seconds;
  Conduct conduct;
};

// What became of a rate: the loss on the validation part after so many steps, NaN where the training diverged.
struct TriedRate {
  double rate;
  int64_t steps;
  double loss;
};

struct CurvePoint {
  int64_t steps;
  double loss;  // on the validation part, of the first seed; NaN where the training diverged
};

// A contender as it was prepared.
struct Entry {
  SizedContender model;
  double step_seconds = 0;  // 0 without a pilot
  int64_t steps = 0;        // of its trainings
  double rate = 0;          // that was chosen; 0: it diverged at all of them
  std::vector<TriedRate> tried;
  // A quarter of the steps, half of them, all; each trained with a schedule of its own. Fewer than four steps have no curve.
  std::vector<CurvePoint> curve;

  // By a power law through the last two points: by how much the loss falls at twice the steps, 0 where it rose; NaN without a
  // curve.
  double Gain() const;
  // By a power law through the first two points: what they foretell for the last; NaN without a curve.
  double Foretold() const;
};

struct ContestResult {
  std::vector<double> rates;   // that were tried, rising
  std::vector<Entry> entries;  // in the order of the models
  Measurements at_time;        // after equal time, or equal steps where these were asked for
  std::vector<Judged> verdict;
  // The same after as many steps as the slowest has; nothing where those are equal anyway.
  std::optional<Measurements> at_steps;
  std::vector<Judged> steps_verdict;
  int64_t common_steps = 0;
  std::vector<double> weights;  // of the blocks

  bool Timed() const { return entries.front().step_seconds > 0; }
  // Those that may be the best: the leader, and what is tied or undecided. In order of their losses.
  std::vector<const Entry*> InTheRunning() const;
};

// 1. A pilot trains each model for a second or so, alone, and so turns time into steps; from there on only steps count, and all
//    numbers are the same whenever and wherever the rest is computed.
// 2. Rates by successive halving (Jamieson and Talwalkar 2016, "Non-stochastic best arm identification and hyperparameter
//    optimization"): all rates for an eighth of the steps, the better half for twice as many, until one is left; by validation,
//    with a seed that is not reported.
// 3. Every model with every seed for all its steps, and with the first seed for a half and a quarter of them; the faster ones
//    once more for the steps of the slowest.
// Jobs that the store holds, where there is one, are not repeated. Progress on stderr begins with `what`. Throws Divergence
// where every model diverges, and what DoJobs throws.
ContestResult Hold(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store);

// A verdict over those entries for which `losses` has any: [seeds, blocks] as in Score. Empty where none has.
std::vector<Judged> JudgeSome(const ContestResult& result,
                              const std::function<std::vector<std::vector<double>>(const Entry& entry)>& losses);

nlohmann::ordered_json ToJson(const ContestResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_CONTEST_H_
