// heed tasks: synthetic tasks that separate encoders, learned and measured at every length.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/fields.h"
#include "cli/place.h"
#include "cli/table.h"
#include "lab/report/environment.h"
#include "lab/report/file.h"
#include "lab/report/html.h"
#include "lab/report/json.h"
#include "lab/tasks/findings.h"
#include "lab/tasks/output.h"
#include "lab/tasks/tasks.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct TaskArguments {
  explicit TaskArguments(CLI::App& command) : flags(command, FieldsOf(described)) {}

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

lab::TaskOptions OptionsOf(const TaskArguments& arguments, const Context& context) {
  lab::TaskOptions options = lab::TaskBudget(arguments.budget);
  arguments.flags.Apply(FieldsOf(options), "a study of tasks");
  CompleteLengths(arguments.flags, options);
  options.seed = context.seed;
  options.threads = ThreadsOf(context);
  options.quiet = context.quiet;
  return options;
}

void WritePage(const lab::TasksResult& result, const std::filesystem::path& folder, const nlohmann::ordered_json& json) {
  lab::Report report("Tasks that separate encoders");
  report.Section("Tasks");
  lab::AddTasks(result, CommandOf(result.options, folder), folder, report);
  lab::WriteFile(folder / "tasks.json", lab::JsonText(json, 1) + "\n");
  report.Write(folder / "report.html");
}

void PrintFindings(const lab::TasksResult& result) {
  for (const lab::TaskResult& task : result.tasks) {
    PrintTable(lab::TaskTable(task, result));
    fmt::print("{}\n\n", lab::TaskFinding(task, result));
  }
  const std::size_t trained = result.TrainingLength(), longest = result.options.lengths.size() - 1;
  fmt::print("{}\n", lab::FamilyFinding(result, trained));
  if (longest != trained) fmt::print("{}\n", lab::FamilyFinding(result, longest));
  fmt::print("{}\n", lab::SchemeFinding(result));
}

lab::TasksResult RunIn(const std::filesystem::path& folder, const lab::TaskOptions& options,
                       const lab::Environment& environment) {
  if (folder.empty()) return lab::RunTasks(options, "tasks");
  const lab::ResultStore store(folder / "runs", lab::ResultSettings(environment));
  try {
    return lab::RunTasks(options, "tasks", &store);
  } catch (const lab::Interruption&) {
    throw lab::Interruption("interrupted; finished runs are kept in " + store.folder().string() +
                            ", and the same command goes on from there");
  }
}

int RunTasksCommand(const TaskArguments& arguments, const Context& context) {
  lab::WatchForInterrupt();
  const lab::TaskOptions options = OptionsOf(arguments, context);
  lab::Validate(options);
  // A folder that cannot be written shows now and not after the training.
  const std::filesystem::path folder = arguments.out;
  if (!folder.empty()) lab::WriteFile(folder / "command.txt", CommandOf(options, folder) + "\n");
  const lab::Environment environment = lab::ThisEnvironment();
  const lab::TasksResult result = RunIn(folder, options, environment);
  nlohmann::ordered_json json = lab::TasksJson(result);
  json["environment"] = ToJson(environment);
  if (!folder.empty()) {
    WritePage(result, folder, json);
    json["page"] = (folder / "report.html").string();
  }
  if (context.json) {
    std::cout << lab::JsonText(json, 2) << "\n";
  } else {
    PrintFindings(result);
  }
  if (!folder.empty() && !context.quiet) std::fprintf(stderr, "wrote %s\n", (folder / "report.html").c_str());
  return 0;
}

}  // namespace

void AddTasks(CLI::App& app, Run& run) {
  CLI::App* command =
      app.add_subcommand("tasks", "Tasks that separate encoders: adding, copying, recall, parity, reversal, order");
  const auto arguments = std::make_shared<TaskArguments>(*command);
  command->add_option("--budget", arguments->budget, "quick: seconds, default: a minute, long: half an hour, on two cores")
      ->capture_default_str();
  AddName(
      *command, "--out", arguments->out,
      "Folder for report.html, figures and numbers; finished runs are kept there, and the same command goes on after Ctrl-C");
  command->footer(
      "Examples:\n  heed tasks --budget quick\n"
      "  heed tasks --tasks parity,recall --encoders attention,gru --positions none,rotary --lengths 16:128 --out tasks");
  command->callback(
      [arguments, &run] { run = [arguments](const Context& context) { return RunTasksCommand(*arguments, context); }; });
}

}  // namespace heed::cli
