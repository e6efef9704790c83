#include "lab/runs/pilot.h"

#include <algorithm>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/runs/job.h"

namespace heed::lab {
namespace {

const Measure kStepSeconds = {.name = "step_seconds",
                              .label = "Seconds of a step",
                              .phrase = "{} ms a step",
                              .digits = 3,
                              .significant = true,
                              .unit = 1e-3};

double Rounded(double seconds) { return std::stod(fmt::format("{:.3g}", seconds)); }

// A training of a second or so that yields how long a step takes. Each runs alone: beside another, who that is would enter.
Job PilotJob(const Contest& contest, const SizedContender& model, int time) {
  Job job{.name = fmt::format("{}-pilot-{}-{}", contest.id, time, model.Id()),
          .settings = {{"encoder", model.encoder}, {"position", model.position}, {"ffn_width", model.ffn_width}},
          .work = 1,
          .label = model.Label(),
          .columns = {{kStepSeconds}},
          .compute =
              [&contest, &model](const OnWork& on_work) {
                Outcome outcome{.values = {Rounded(contest.StepSeconds(model))}};
                on_work(1);
                return outcome;
              },
          .check =
              [](const Outcome& outcome) {
                if (!(outcome.values.front() > 0)) throw InvalidArgument("step_seconds: it is not positive");
              }};
  job.settings.update(contest.settings);
  return job;
}

}  // namespace

std::vector<double> MeasurePace(const std::string& what, const Contest& contest, bool quiet, const ResultStore* store) {
  std::vector<Job> jobs;
  jobs.reserve(2 * contest.models.size());
  for (const int time : {1, 2}) {
    for (const SizedContender& model : contest.models) jobs.push_back(PilotJob(contest, model, time));
  }
  const std::vector<Outcome> outcomes = DoJobs(what + ": speed", jobs, store, /*threads=*/1, quiet);
  std::vector<double> seconds;
  for (std::size_t i = 0; i < contest.models.size(); ++i)
    seconds.push_back(std::min(outcomes[i].values.front(), outcomes[contest.models.size() + i].values.front()));
  return seconds;
}

}  // namespace heed::lab
