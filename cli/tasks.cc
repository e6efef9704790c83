// heed tasks: synthetic tasks that separate encoders, learned and measured at every length.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/lengths.h"
#include "cli/place.h"
#include "cli/table.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
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
  std::string budget = "default", lengths, out;
  std::vector<std::string> tasks, encoders, positions;  // empty: the budget's
  std::optional<int64_t> length, steps, seeds, layers, width, batch;
  std::optional<double> lr;
};

lab::TaskOptions OptionsOf(const TaskArguments& arguments, const Context& context) {
  lab::TaskOptions options = lab::TaskBudget(arguments.budget);
  if (arguments.tasks == std::vector<std::string>{"all"}) {
    options.tasks = lab::TaskNames();
  } else if (!arguments.tasks.empty()) {
    options.tasks = arguments.tasks;
  }
  if (!arguments.encoders.empty()) options.encoders = arguments.encoders;
  if (!arguments.positions.empty()) options.positions = arguments.positions;
  if (arguments.length) {
    options.length = *arguments.length;
    options.lengths = {options.length, 2 * options.length, 4 * options.length};
  }
  if (!arguments.lengths.empty()) {
    options.lengths = ParseLengths(arguments.lengths);
    options.lengths.push_back(options.length);
    std::ranges::sort(options.lengths);
    options.lengths.erase(std::unique(options.lengths.begin(), options.lengths.end()), options.lengths.end());
  }
  options.steps = arguments.steps.value_or(options.steps);
  options.seeds = arguments.seeds.value_or(options.seeds);
  options.layers = arguments.layers.value_or(options.layers);
  options.width = arguments.width.value_or(options.width);
  options.batch = arguments.batch.value_or(options.batch);
  options.lr = arguments.lr.value_or(options.lr);
  options.seed = context.seed;
  options.threads = ThreadsOf(context);
  options.quiet = context.quiet;
  return options;
}

// As a command that gives the same numbers.
std::string CommandOf(const lab::TaskOptions& options) {
  const auto list = [](const auto& values) { return fmt::format("{}", fmt::join(values, ",")); };
  return fmt::format("heed tasks --budget {} --tasks {} --encoders {} --positions {} --length {} --lengths {}", options.budget,
                     list(options.tasks), list(options.encoders), list(options.positions), options.length,
                     list(options.lengths)) +
         fmt::format(" --layers {} --width {} --batch {} --steps {} --lr {} --seeds {} --seed {} --out DIR", options.layers,
                     options.width, options.batch, options.steps, options.lr, options.seeds, options.seed);
}

void WritePage(const lab::TasksResult& result, const std::filesystem::path& folder, const nlohmann::ordered_json& json) {
  lab::Report report("Tasks that separate encoders");
  report.Section("Tasks");
  lab::AddTasks(result, CommandOf(result.options), folder, report);
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
  if (!folder.empty()) lab::WriteFile(folder / "command.txt", CommandOf(options) + "\n");
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
  const auto arguments = std::make_shared<TaskArguments>();
  CLI::App* command =
      app.add_subcommand("tasks", "Tasks that separate encoders: adding, copying, recall, parity, reversal, order");
  command->add_option("--budget", arguments->budget, "quick: seconds, default: a minute, long: half an hour, on two cores")
      ->capture_default_str();
  const auto list = [command](const char* name, std::vector<std::string>& values, const std::string& text) {
    command->add_option(name, values, text)->expected(1, -1)->delimiter(',');
  };
  const auto some_of = [](const std::vector<std::string>& names) { return fmt::format("Some of {}", fmt::join(names, ", ")); };
  list("--tasks", arguments->tasks, some_of(lab::TaskNames()) + "; or all; default: the budget's");
  list("--encoders", arguments->encoders,
       some_of(nn::EncoderNames()) + fmt::format("; default: {}", fmt::join(lab::DefaultEncoders(), ", ")));
  list("--positions", arguments->positions, some_of(nn::PositionSchemeNames()) + ", of attention; default: the budget's");
  AddName(*command, "--lengths", arguments->lengths,
          "Steps of the evaluations: numbers with commas, and ranges 16:128 that double; the training length is always one of "
          "them");
  AddName(
      *command, "--out", arguments->out,
      "Folder for report.html, figures and numbers; finished runs are kept there, and the same command goes on after Ctrl-C");
  const auto add = [command](const char* name, auto& value, const char* text) {
    command->add_option(name, value, text)->group("Instead of the budget's");
  };
  add("--length", arguments->length, "Steps of a sequence in training; evaluations then are at 1, 2 and 4 times as many");
  add("--steps", arguments->steps, "Training steps of a run");
  add("--seeds", arguments->seeds, "Runs of a model");
  add("--layers", arguments->layers, "Layers; 0: as the task needs");
  add("--width", arguments->width, "Features of a step");
  add("--batch", arguments->batch, "Sequences a step");
  add("--lr", arguments->lr, "Learning rate after the warm-up");
  command->footer(
      "Examples:\n  heed tasks --budget quick\n"
      "  heed tasks --tasks parity,recall --encoders attention,gru --positions none,rotary --lengths 16:128 --out tasks");
  command->callback(
      [arguments, &run] { run = [arguments](const Context& context) { return RunTasksCommand(*arguments, context); }; });
}

}  // namespace heed::cli
