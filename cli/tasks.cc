// heed tasks: synthetic tasks that separate encoders, learned and measured at every length.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "book/tasks/output.h"
#include "book/tasks/tasks.h"
#include "cli/command.h"
#include "cli/fields.h"
#include "cli/outcome.h"
#include "lab/report/environment.h"
#include "lab/report/file.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct TaskArguments {
  explicit TaskArguments(CLI::App& command) : flags(command, FieldsOf(described)) {
    command.add_option("--budget", budget, "quick: seconds, default: a minute, long: half an hour, on two cores")
        ->capture_default_str();
    AddName(
        command, "--out", out,
        "Folder for report.html, figures and numbers; finished runs are kept there, and the same command goes on after Ctrl-C");
    command.footer(
        "Examples:\n  heed tasks --budget quick\n"
        "  heed tasks --tasks parity,recall --encoders attention,gru --positions none,rotary --lengths 16:128 --out tasks");
  }

  lab::TaskOptions described;
  std::string budget = "default", out;
  FieldFlags flags;
};

// The training length is always one of the lengths.
void CompleteLengths(const FieldFlags& flags, lab::TaskOptions& options) {
  if (flags.Given("length") && !flags.Given("lengths"))
    options.lengths = {options.length, 2 * options.length, 4 * options.length};
  options.lengths.push_back(options.length);
  std::ranges::sort(options.lengths);
  options.lengths.erase(std::unique(options.lengths.begin(), options.lengths.end()), options.lengths.end());
}

void PrintText(const lab::TasksResult& result) {
  for (const lab::TaskResult& task : result.tasks) {
    PrintTable(lab::TaskTable(task, result.options));
    fmt::print("{}\n\n", lab::TaskFinding(task, result.options));
  }
  for (const std::string& finding : lab::TasksFindings(result)) fmt::print("{}\n", finding);
}

lab::TasksResult RunIn(const std::filesystem::path& folder, const lab::TaskOptions& options) {
  if (folder.empty()) return lab::RunTasks(options, "tasks");
  // A folder that cannot be written shows now and not after the training.
  lab::WriteFile(folder / "command.txt", CommandOf(options, folder) + "\n");
  const lab::ResultStore store(folder / "runs", lab::ResultSettings(lab::ThisEnvironment()));
  return lab::RunTasks(options, "tasks", &store);
}

int RunTasksCommand(const TaskArguments& arguments, const Context& context) {
  lab::WatchForInterrupt();
  lab::TaskOptions options = OptionsOf(lab::TaskBudget(arguments.budget), arguments.flags, "a study of tasks", context);
  CompleteLengths(arguments.flags, options);
  lab::Validate(options);
  const std::filesystem::path folder = arguments.out;
  const lab::TasksResult result = RunIn(folder, options);
  const std::filesystem::path page = folder.empty() ? folder : lab::WriteTasks(result, folder);
  Show(context, lab::TasksJson(result), page, [&] { PrintText(result); });
  return 0;
}

const Command kTasks(90, "tasks", "Tasks that separate encoders: adding, copying, recall, parity, reversal, order",
                     &RunTasksCommand);

}  // namespace
}  // namespace heed::cli
