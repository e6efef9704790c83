// study_record OUT TEXT|DATA [--target ..]: trains every contender of `heed study` for many times the budget, with several
// seeds and at every rate, and keeps what a race would see of it. A record that was stopped goes on behind its last whole
// model.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "bench/study/record.h"
#include "cli/data_file.h"
#include "lab/data/text.h"
#include "lab/study/study.h"
#include "lab/training/divergence.h"

namespace heed::bench {
namespace {

// A training and what is on record of it.
class Recording {
 public:
  // `first`: from these steps on the best states are measured on the test part too.
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
    if (reached_ < first_ || !best.blocks.empty()) return;
    outcome = training_->Report();
    best.blocks = std::move(outcome.blocks), best.values = std::move(outcome.values);
  }

  std::unique_ptr<lab::Training> training_;
  int64_t whole_, first_, reached_ = 0;
  bool ended_ = false;
  RecordedRun run_;
};

// All seeds at all rates for a whole training; then those at the rate that validation likes best go on.
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

struct Arguments {
  std::string out, data, name;
  cli::DataArguments table;
  uint64_t seeds = 4;
  double seconds = 0;
  int64_t times = 8, horizon = 0, context = 0;
};

Record Begun(const lab::StudyTask& task, const lab::StudyOptions& options, const Arguments& arguments) {
  Record record{.name = arguments.name, .id = task.id, .times = arguments.times, .seconds = options.seconds};
  record.rates = options.rates, record.weights = task.weights, record.validation_weights = task.validation_weights;
  record.columns = task.columns, record.baselines = task.Baselines(1);
  for (const lab::SizedContender& model : task.models) {
    const double seconds = std::min(task.StepSeconds(model), task.StepSeconds(model));
    // A multiple of 16, so that the points of a quarter of the budget are points of all.
    const auto steps = std::max<int64_t>(1, std::llround(options.seconds / seconds / 16)) * 16;
    record.models.push_back({model, seconds, steps});
    std::fprintf(stderr, "%s: %.4f s a step, %lld steps\n", model.Label().c_str(), seconds, static_cast<long long>(steps));
  }
  return record;
}

void RecordStudy(const Arguments& arguments) {
  at::set_num_threads(1);
  lab::StudyOptions options =
      lab::BudgetOptions("default", arguments.table.Given() ? lab::StudyKind::kTable : lab::StudyKind::kText);
  if (arguments.seconds > 0) options.seconds = arguments.seconds;
  if (arguments.horizon > 0) options.horizon = arguments.horizon;
  if (arguments.context > 0) options.context = arguments.context;
  lab::SeriesData data;
  if (arguments.table.Given()) data = cli::ReadData(arguments.data, arguments.table);
  const lab::Subject subject = arguments.table.Given() ? lab::SubjectOf(data, arguments.data, options)
                                                       : lab::SubjectOf(lab::ReadText(arguments.data), options);
  const lab::StudyTask& task = *subject.tasks.front();
  Record record;
  if (std::filesystem::exists(arguments.out)) {
    record = ReadRecord(arguments.out);
  } else {
    record = Begun(task, options, arguments);
    std::ofstream(arguments.out) << Line(record) << '\n';
  }
  std::set<std::string> done;
  for (const RecordedRun& run : record.runs) done.insert(run.model);
  for (const RecordedModel& model : record.models) {
    if (done.contains(model.model.Id())) continue;
    std::string lines;
    for (const RecordedRun& run : RecordModel(task, model, record, arguments.seeds)) lines += Line(run) + '\n';
    std::ofstream(arguments.out, std::ios::app) << lines << std::flush;
    std::fprintf(stderr, "%s: recorded\n", model.model.Label().c_str());
  }
}

}  // namespace
}  // namespace heed::bench

int main(int count, char** words) {
  CLI::App app("Records the trainings of a study");
  heed::bench::Arguments arguments;
  app.add_option("OUT", arguments.out, "File to write, or to go on with")->required();
  app.add_option("DATA", arguments.data, "Text, or table with --target")->required();
  app.add_option("--name", arguments.name, "What the record is called")->required();
  app.add_option("--seeds", arguments.seeds, "Runs at each rate");
  app.add_option("--seconds", arguments.seconds, "Of a whole training; default: as heed study has it");
  app.add_option("--times", arguments.times, "How many whole trainings long the runs at the best rate are");
  app.add_option("--horizon", arguments.horizon, "Values that a forecast predicts");
  app.add_option("--context", arguments.context, "Steps of a window");
  heed::cli::AddDataOptions(app, arguments.table);
  CLI11_PARSE(app, count, words);
  try {
    heed::bench::RecordStudy(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "study_record: %s\n", error.what());
    return 1;
  }
}
