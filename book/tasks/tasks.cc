#include "book/tasks/tasks.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <ATen/core/grad_mode.h>

#include "book/tasks/solver.h"
#include "lab/runs/job.h"
#include "lab/training/fit.h"
#include "lab/training/interrupt.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {
namespace {

constexpr double kWeightDecay = 0.01;
constexpr uint64_t kEvaluationSeed = 0x7a5c0000;  // any fixed number: runs are compared on the same sequences
constexpr int64_t kEvaluatedAtOnce = 8192;        // of an evaluation, which bounds its memory

double Evaluate(const SequenceTask& task, Solver& solver, int64_t length, int64_t sequences) {
  const at::NoGradGuard no_grad;
  Random random(kEvaluationSeed + static_cast<uint64_t>(length));
  const int64_t at_once = std::max<int64_t>(1, kEvaluatedAtOnce / length);
  double sum = 0;
  int64_t count = 0;
  for (int64_t done = 0; done < sequences; done += at_once) {
    if (Interrupted()) throw Interruption("interrupted during an evaluation");
    const TaskBatch batch = task.Make(std::min(at_once, sequences - done), length, random);
    sum += solver.Score(batch);
    count += static_cast<int64_t>(batch.scored.size());
  }
  return sum / static_cast<double>(count);
}

// The table of a task without numbers yet, and a job for each of them. What they refer to must outlive the jobs.
Measurements PlanJobs(const SequenceTask& task, TaskOptions& options, std::vector<Job>& jobs) {
  Measurements scores(task.facts().id, TaskColumns(task, options), PlanTask(task, options), options.seed, options.seeds);
  for (const SizedContender& model : scores.models()) {
    for (int64_t s = 0; s < options.seeds; ++s) {
      const uint64_t seed = options.seed + static_cast<uint64_t>(s);
      Job job = TrainingJob(scores.part(), model, options.steps, seed, RunSettingsOf(FieldsOf(options)));
      job.columns = scores.columns();
      job.compute = [&task, &options, model, seed](const OnWork& on_work) {
        return TrainOnTask(task, model, options, seed, [&on_work] { on_work(1); });
      };
      jobs.push_back(std::move(job));
    }
  }
  return scores;
}

}  // namespace

Models PlanTask(const SequenceTask& task, const TaskOptions& options) {
  return EqualContenders(options.encoders, options.positions, options.width, 2 * options.width,
                         [&](const Contender& contender, int64_t ffn_width) {
                           return ParameterCount(MakeSolver(task, contender, ffn_width, options)->module());
                         });
}

std::vector<Column> TaskColumns(const SequenceTask& task, const TaskOptions& options) {
  std::vector<Column> columns;
  columns.reserve(options.lengths.size() + 2);
  for (const int64_t length : options.lengths)
    columns.push_back({task.facts().measure(), length, /*optional=*/length != options.length});
  columns.push_back({{.name = "training_loss", .label = "Training loss"}});
  columns.push_back({{.name = "step_seconds", .label = "Seconds a step"}});
  return columns;
}

Outcome TrainOnTask(const SequenceTask& task, const SizedContender& model, const TaskOptions& options, uint64_t seed,
                    const std::function<void()>& on_step) {
  std::unique_ptr<Solver> solver;
  BuildSeeded(seed, [&] { solver = MakeSolver(task, model, model.ffn_width, options); });
  Random random(seed);
  TaskBatch batch;  // the tensors of a step are views of it
  const FitReport report = Fit(solver->module(), ShortTraining(options.steps, options.lr, kWeightDecay),
                               [&] {
                                 batch = task.Make(options.batch, options.length, random);
                                 return solver->Loss(batch);
                               },
                               {.on_step = [&](const FitStep&) { on_step(); }});
  Outcome outcome;
  for (const int64_t length : options.lengths) {
    const bool reached = length >= task.facts().shortest && length <= solver->longest();
    outcome.values.push_back(reached ? Evaluate(task, *solver, length, options.evaluated) : NAN);
  }
  outcome.values.push_back(report.last_loss);
  outcome.values.push_back(report.step_seconds);
  return outcome;
}

TasksResult RunTasks(const TaskOptions& options, const std::string& what, const ResultStore* store) {
  Validate(options);
  TasksResult result{options, ThisEnvironment(), {}};
  std::vector<Job> jobs;
  for (const std::string& name : TasksOf(options)) {
    const SequenceTask& task = TaskNamed(name);
    result.tasks.push_back({&task, PlanJobs(task, result.options, jobs)});
  }
  const std::vector<Outcome> outcomes = DoJobs(what, jobs, store, options.threads, options.quiet);
  std::size_t next = 0;
  for (TaskResult& task : result.tasks) {
    for (std::size_t m = 0; m < task.scores.models().size(); ++m) {
      for (int64_t s = 0; s < options.seeds; ++s) task.scores.Put(m, static_cast<std::size_t>(s), outcomes[next++]);
    }
  }
  return result;
}

}  // namespace heed::lab
