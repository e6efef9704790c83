#include "lab/series/series.h"

#include <algorithm>
#include <utility>

#include "lab/report/file.h"
#include "lab/series/run.h"

namespace heed::lab {
namespace {

SeriesSummary Summarise(const SeriesBatches& batches) {
  const SeriesData& data = batches.data();
  SeriesSummary summary;
  summary.name = data.name, summary.fingerprint = data.fingerprint, summary.target = data.target;
  summary.goal = data.goal;
  summary.features = data.features, summary.classes = data.classes;
  summary.sequences = std::ssize(data.sequences), summary.steps = data.Steps(), summary.longest = data.Longest();
  summary.shortest = data.Longest();
  for (const SeriesSequence& sequence : data.sequences) summary.shortest = std::min(summary.shortest, sequence.steps);
  summary.training = batches.training_count(), summary.validation = batches.validation_count();
  summary.test = batches.test_count();
  summary.has_times = data.has_times, summary.each_step = data.each_step;
  summary.left = RangesLeft(batches);
  return summary;
}

// What all runs depend on beside their own settings.
nlohmann::ordered_json SharedSettings(const SeriesSummary& data, const Environment& environment) {
  nlohmann::ordered_json settings = {{"data", data.fingerprint},    {"target", data.target},   {"features", data.features},
                                     {"goal", ToString(data.goal)}, {"times", data.has_times}, {"sequences", data.sequences}};
  settings.update(ResultSettings(environment));
  return settings;
}

}  // namespace

std::vector<Column> SeriesResult::told() const {
  std::vector<Column> columns = scores().ColumnsOf("loss");
  if (Classifies()) columns.push_back(scores().ColumnOf("accuracy"));
  return columns;
}

SeriesResult RunSeries(const SeriesData& data, const SeriesOptions& options, const std::filesystem::path& folder) {
  Validate(options);
  const SeriesBatches batches(data, options);
  const SeriesSummary summary = Summarise(batches);
  const Environment environment = ThisEnvironment();
  const ResultStore store(folder / "runs", SharedSettings(summary, environment));
  // A folder that cannot be written shows now and not after the training.
  WriteFile(folder / "data.txt", summary.name + " " + summary.fingerprint + "\n");
  SeriesOptions own = options;
  std::vector<SeriesBaseline> baselines = SeriesBaselines(batches, options.threads);
  const Contest contest = ContestOf(batches, own);
  const ContestOptions held{.seconds = options.seconds,
                            .steps = options.all_steps,
                            .rates = options.rates,
                            .step_seconds = options.step_seconds,
                            .conduct = {options.seed, options.seeds, options.threads, options.quiet}};
  SeriesResult result{own, environment, summary, std::move(baselines), Hold(contest.id, contest, held, &store)};
  // The command that is printed gives the same steps.
  result.options.step_seconds.clear();
  for (const Entry& entry : result.contest.entries) {
    if (result.contest.Timed()) result.options.step_seconds.push_back(entry.step_seconds);
  }
  return result;
}

}  // namespace heed::lab
