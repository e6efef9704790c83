// A contest: contenders of equal size train for equal time, each at the learning rate that suits it; those that cannot win any
// more stop, and their seconds go to the others; who is left is judged by data that nothing was chosen by.
#ifndef HEED_LAB_RUNS_CONTEST_H_
#define HEED_LAB_RUNS_CONTEST_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/report/result_store.h"
#include "lab/runs/measurements.h"
#include "lab/runs/verdict.h"
#include "lab/training/curve.h"

namespace heed::lab {

// One training. Its curve has the points of PointAfter, where `steps` are the whole.
struct Trial {
  const SizedContender& model;
  int64_t steps;
  double rate;
  uint64_t seed;
};
using OnStep = std::function<void()>;

// A trial under way.
class Training {
 public:
  virtual ~Training() = default;
  // Trains until so many steps are done in all, a point of its curve, or until it ends by itself. Returns its curve and, of its
  // best state so far, the loss on the validation part (the only value) and on each of its blocks. One call for all steps gives
  // the same. Throws Divergence where it has no such state, and Interruption on Ctrl-C.
  virtual Outcome Reach(int64_t steps, const OnStep& on_step) = 0;
  // The same with all values, by the contest's columns, and the losses on the blocks of the test part.
  virtual Outcome Report() = 0;
  // Writes the weights of that state as a safetensors file. Throws FileError.
  virtual void Keep(const std::filesystem::path& path) = 0;
};

// What is contested: models, how they are trained and measured. The functions are called side by side, each training in the
// calling thread.
class Contest {
 public:
  virtual ~Contest() = default;

  std::string id;  // begins the names of its jobs: "causal"
  Models models;   // their Ids differ
  // What its trainings depend on beside model, steps, rate, seed and what the store's results share.
  nlohmann::ordered_json settings;
  // What is measured of a model, "loss" on the test part first and "validation_loss" last.
  std::vector<Column> columns;
  // Of the blocks of the test part and of the validation part: how many predictions each holds.
  std::vector<double> weights, validation_weights;
  // What an answer that looks at no features, such as the commonest class, loses on the validation part; 0: there is none.
  double simple_loss = 0;

  virtual std::unique_ptr<Training> Begin(const Trial& trial) const = 0;
  // The thread's own seconds in a step of training, measured while nothing else of this program runs.
  virtual double StepSeconds(const SizedContender& model) const = 0;
};

// Where a store keeps the weights of a model's whole training with this seed; those of the first seed alone are kept.
std::filesystem::path WeightsIn(const ResultStore& store, const Contest& contest, const Contender& model, uint64_t seed);

// Seconds of a step, in the order of the models and to three digits: what the command that is printed says is what was
// measured. Each model is timed alone, twice with all others in between, and the shorter time counts: what else the machine
// does comes and goes. Measurements that the store holds, where there is one, are not repeated. Progress begins with `what`.
std::vector<double> MeasurePace(const std::string& what, const Contest& contest, bool quiet, const ResultStore* store);

struct ContestOptions {
  double seconds = 0;         // of a whole training, which a pilot turns into steps once;
  int64_t steps = 0;          // or its steps, where not 0, and there is no pilot
  std::vector<double> rates;  // those to choose among, rising
  // Of each model, in order: what the pilot is to have measured; empty: it measures.
  std::vector<double> step_seconds;
  // Two models that differ by at most this share of the loss are as good as each other: of the loss of the better one, or of a
  // tenth of Contest::simple_loss where that is more. The tenth keeps differences between tiny losses from counting.
  double tolerance = 0.01;
  uint64_t seed = 0;  // runs of a model have the seeds seed, seed + 1, ..
  int64_t seeds = 1;
  int threads = 1;  // runs side by side, each with one thread; but for times, results do not depend on it
  bool quiet = true;
};

// What became of a rate: the least loss on the validation part within so many steps, NaN where the training diverged.
struct TriedRate {
  double rate;
  int64_t steps;
  double loss;
};

// A contender as it was prepared and trained.
struct Entry {
  SizedContender model;
  double step_seconds = 0;  // 0 without a pilot
  int64_t steps = 0;        // of a whole training
  double rate = 0;          // that was chosen; 0: it diverged at all of them
  std::vector<TriedRate> tried;
  int64_t reached = 0;  // steps of its longest training; fewer than `steps` where the contender was stopped
  int64_t runs = 0;     // trainings that are reported
  bool stopped = false;
  std::vector<CurvePoint> curve;  // of the first seed
  int64_t best_steps = 0;         // of the same: after which its loss was the least

  // By how much the loss falls at twice the steps, and what the first half of the curve foretells for its end, see Foretell;
  // NaN where it foretells nothing.
  double Gain() const;
  double FromHalf() const;
};

struct ContestResult {
  std::vector<double> rates;   // that were tried, rising
  std::vector<Entry> entries;  // in the order of the models
  Measurements at_time;        // of their best states within equal time, or equal steps where these were asked for
  std::vector<Judged> verdict;
  double tolerance = 0, simple_loss = 0;
  std::vector<double> weights;  // of the blocks

  // By how much two models may differ and be as good as each other.
  double Margin() const;

  bool Timed() const { return entries.front().step_seconds > 0; }
};

// What counts as no difference from a loss, see ContestOptions::tolerance.
double MarginOf(double tolerance, double loss, double simple_loss);

// Which contender to take, and at what price.
struct Recommendation {
  std::size_t contender;  // index of its entry
  double may_lose;        // at most, to any other that was tried, with 95 %
  bool decided;           // whether that is within Margin(); while it is not, the leader is taken
  // Others that are within it too, the least loss first: the one that is taken is the fastest of all these.
  std::vector<std::size_t> as_good;
};
Recommendation Recommend(const ContestResult& result);

// The recommended model beside a method without training that has these losses on the blocks: the best of all models that were
// trained, see CompareWith.
Compared CompareWithMethod(const ContestResult& result, const std::vector<double>& blocks);

// 1. A pilot trains each model alone, twice for a second or so, and turns time into steps by the shorter of the two median
//    times of a step. From there on only steps count, so all numbers are the same whenever and wherever the rest is
//    computed.
// 2. Every model begins with the first seed at every rate. After a sixteenth, an eighth and a quarter of the steps the better
//    rates go on, half of them while there are more than four, two and one (Jamieson and Talwalkar 2016, "Non-stochastic best
//    arm identification and hyperparameter optimization"). From a quarter on a model stops that could not become the best even
//    if its curve, and the leader's, were wrong by half of the gain that they foretell. It goes on when the leader turns out
//    worse than foretold. Its best state is measured at the end: what it might have reached is part of the price of the others.
// 3. What is left of the seconds that all models with all seeds would take goes to further seeds of two at a time:
//    of the leader, and of the one that it may yet lose most to (Kalyanakrishnan et al. 2012, "PAC subset selection in
//    stochastic multi-armed bandits"), until the leader is known to be within half of what counts as nothing, or the seconds
//    are spent.
// Validation decides all of that; nothing is chosen by the test part. Jobs that the store holds, where
// there is one, are not repeated; it also keeps the weights of each model's first whole training, see WeightsIn. Progress on
// stderr begins with `what`. Throws Divergence where every model diverges, and what DoJobs throws.
ContestResult Hold(const std::string& what, const Contest& contest, const ContestOptions& options, const ResultStore* store);

// A verdict over those entries for which `losses` has any: [seeds, blocks] as in Score. Empty where none has.
std::vector<Judged> JudgeSome(const ContestResult& result,
                              const std::function<std::vector<std::vector<double>>(const Entry& entry)>& losses);

nlohmann::ordered_json ToJson(const ContestResult& result);

// A model by the validation part.
struct Prospect {
  Foretold end;                // of a whole training; its gain and error are 0 after one
  std::vector<double> blocks;  // the losses of its best state so far
};

// By how much less than `other` `one` may lose at the end of a whole training, at most; less than 0 where it cannot end ahead.
// Three errors add up as those of independent numbers do: two deviations of the mean difference between their losses on the
// blocks, another seed, and those of what the curves foretell. weights: how many predictions each block holds.
double MayEndAhead(const Prospect& one, const Prospect& other, const std::vector<double>& weights);

constexpr double kFurthest = 8;  // times as long as the trainings that ran: as far as curves foretell anything

struct Outlook {
  struct Expected {
    std::size_t contender;  // index of its entry
    double loss;            // on the validation part
    double gain;            // how far that is below its least loss so far; 0 where more training harms
  };

  double times = 1;                     // as long as the trainings that ran
  std::vector<Expected> expected = {};  // the least loss first; without those that were stopped or diverged
  // How far off the same law was at most when it foretold the ends of these curves from the first 1/times of each; NaN where
  // all are too short to tell.
  double missed = 0;

  // Those that are expected within `missed` of the first, which is among them.
  std::vector<std::size_t> Near() const;
};

// By Foretell. times: more than 1.
Outlook OutlookOf(const ContestResult& result, double times);

// A model that loses less than a method without training once it has trained for longer.
struct Overtaking {
  std::size_t contender;  // index of its entry
  double times;           // as long as the trainings that ran
  double loss;            // on the test part, by then
};
// Where the model that is taken is behind a method without training: the model, stopped or not, that would lose the least after
// kFurthest times the steps, if that may be less than the method loses: by its curve, or as far below as the curve may be off,
// but not below half of the predicted loss. The times are the fewest of 2, 4 and 8 that are expected to do.
std::optional<Overtaking> MayOvertake(const ContestResult& result, const Compared& with_method);

nlohmann::ordered_json ToJson(const Outlook& outlook, const ContestResult& result);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_CONTEST_H_
