#include "bench/study/record.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

#include "lab/training/curve.h"
#include "lab/training/interrupt.h"

namespace heed::bench {
namespace {

// A training and what is on record of it.
class Recording {
 public:
  // `first`: from these steps on the best states are measured on the test part too, and the last of a training that ends
  // before.
  Recording(const lab::Contest& contest, const lab::Trial& trial, int64_t first)
      : training_(contest.Begin(trial)), whole_(trial.steps), first_(first) {
    run_.model = trial.model.Id(), run_.rate = trial.rate, run_.seed = trial.seed;
  }

  void GoOn(int64_t steps) {
    try {
      while (reached_ < steps && !ended_) Next();
    } catch (const lab::Divergence& error) {
      run_.diverged = error.what(), ended_ = true;
    }
  }

  const RecordedRun& run() const { return run_; }
  double Validation() const {
    double least = INFINITY;
    for (const lab::CurvePoint& point : run_.curve) least = std::fmin(least, point.validation);
    return least;
  }

 private:
  void Next() {
    reached_ = lab::PointAfter(reached_, whole_);
    lab::Outcome outcome = training_->Reach(reached_, [] {});
    // A course that ended, or diverged with a state to keep, has no such point.
    ended_ = outcome.curve.back().steps != reached_;
    run_.curve = outcome.curve;
    RecordedBest& best = run_.best[outcome.best_steps];
    best.validation = outcome.validation;
    if ((reached_ < first_ && !ended_) || !best.blocks.empty()) return;
    outcome = training_->Report();
    best.blocks = std::move(outcome.blocks), best.values = std::move(outcome.values);
  }

  std::unique_ptr<lab::Training> training_;
  int64_t whole_, first_, reached_ = 0;
  bool ended_ = false;
  RecordedRun run_;
};

}  // namespace

std::vector<RecordedRun> RecordModel(const lab::Contest& contest, const RecordedModel& model, const Record& record,
                                     uint64_t seeds) {
  std::vector<std::vector<Recording>> runs(record.rates.size());
  std::size_t best = 0;
  double least = INFINITY;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    double sum = 0;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Recording& run =
          runs[i].emplace_back(contest, lab::Trial{model.model, model.steps, record.rates[i], seed}, model.steps / 4);
      run.GoOn(model.steps);
      sum += run.Validation();
    }
    if (sum < least) least = sum, best = i;
  }
  for (Recording& run : runs[best]) run.GoOn(record.times * model.steps);
  std::vector<RecordedRun> recorded;
  for (const std::vector<Recording>& of_rate : runs) {
    for (const Recording& run : of_rate) recorded.push_back(run.run());
  }
  return recorded;
}

Record BeginRecord(const std::string& name, const lab::StudyTask& task, const lab::StudyOptions& options, int64_t times,
                   const std::vector<double>& step_seconds) {
  Record record{.name = name, .id = task.id, .times = times, .seconds = options.seconds, .simple_loss = task.simple_loss};
  record.rates = options.rates, record.weights = task.weights, record.validation_weights = task.validation_weights;
  record.columns = task.columns, record.baselines = task.Baselines(1);
  for (std::size_t i = 0; i < task.models.size(); ++i) {
    // A multiple of 16, so that the points of a quarter of the budget are points of all.
    const auto steps = std::max<int64_t>(1, std::llround(options.seconds / step_seconds[i] / 16)) * 16;
    record.models.push_back({task.models[i], step_seconds[i], steps});
  }
  return record;
}

}  // namespace heed::bench
