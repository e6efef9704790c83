// study_record OUT TEXT|DATA [--target ..]: trains every contender of `heed study` for many times the budget, with several
// seeds and at every rate, and keeps what a race would see of it. A record that was stopped goes on behind its last whole
// model.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include "bench/study/record.h"
#include "cli/data_file.h"
#include "heed/error.h"
#include "lab/data/text.h"
#include "lab/report/file.h"
#include "lab/runs/contest.h"
#include "lab/study/study.h"

namespace heed::bench {
namespace {

struct Arguments {
  std::string out, data, name;
  cli::DataArguments table;
  uint64_t seeds = 4;
  double seconds = 0;
  int64_t times = 8, horizon = 0, context = 0;
  std::vector<double> step_seconds;
};

// Rounded to the digits that a record holds: one that goes on has to begin with the same steps.
std::vector<double> PaceOf(const lab::StudyTask& task) {
  std::vector<double> seconds = lab::MeasurePace("pace", task, /*quiet=*/true, /*store=*/nullptr);
  for (std::size_t i = 0; i < seconds.size(); ++i)
    std::fprintf(stderr, "%s: %.4f s a step\n", task.models[i].Label().c_str(), seconds[i]);
  return seconds;
}

void RecordStudy(const Arguments& arguments) {
  at::set_num_threads(1);
  lab::StudyOptions options =
      lab::BudgetOptions("default", arguments.table.Given() ? lab::StudyKind::kTable : lab::StudyKind::kText);
  if (arguments.seconds > 0) options.seconds = arguments.seconds;
  if (arguments.horizon > 0) options.horizon = arguments.horizon;
  if (arguments.context > 0) options.context = arguments.context;
  lab::SeriesData data;
  if (arguments.table.Given()) data = cli::ReadData(arguments.data, arguments.table, /*flags=*/nullptr).front();
  const lab::Subject subject = arguments.table.Given() ? lab::SubjectOf(data, arguments.data, options)
                                                       : lab::SubjectOf(lab::ReadText(arguments.data), options);
  const lab::StudyTask& task = *subject.tasks.front();
  const bool goes_on = std::filesystem::exists(arguments.out);
  std::vector<double> seconds = arguments.step_seconds;
  std::vector<RecordedRun> runs;
  std::string before;
  if (goes_on) {
    Record begun = ReadRecord(arguments.out);
    before = Text(begun), runs = std::move(begun.runs);
    seconds.clear();
    for (const RecordedModel& model : begun.models) seconds.push_back(model.step_seconds);
  } else if (seconds.empty()) {
    seconds = PaceOf(task);
  }
  if (seconds.size() != task.models.size())
    throw InvalidArgument(fmt::format("step-seconds: expected one for each of the {} models", task.models.size()));
  Record record = BeginRecord(arguments.name, task, options, arguments.times, seconds);
  record.runs = std::move(runs);
  if (!goes_on) lab::WriteFile(arguments.out, Text(record));
  if (goes_on && Text(record) != before)
    throw InvalidArgument("OUT: holds the record of another study; give another file, or its data and options");
  std::set<std::string> done;
  for (const RecordedRun& run : record.runs) done.insert(run.model);
  for (const RecordedModel& model : record.models) {
    if (done.contains(model.model.Id())) continue;
    std::ranges::move(RecordModel(task, model, record, arguments.seeds), std::back_inserter(record.runs));
    lab::WriteFile(arguments.out, Text(record));
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
  app.add_option("--step-seconds", arguments.step_seconds, "Of each model, measured while nothing else ran")->delimiter(',');
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
