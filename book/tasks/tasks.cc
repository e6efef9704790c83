#include "book/tasks/tasks.h"

#include <utility>

#include "book/tasks/run.h"
#include "lab/runs/job.h"

namespace heed::lab {
namespace {

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
