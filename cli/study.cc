// heed study: which encoder and which notion of order for a text or for labelled sequences, as one page.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/data_study.h"
#include "cli/place.h"
#include "heed/error.h"
#include "heed/nn/encoders.h"
#include "heed/nn/positions.h"
#include "lab/report/json.h"
#include "lab/study/findings.h"
#include "lab/study/reference_text.h"
#include "lab/study/study.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct StudyArguments {
  std::string text, out = "report", budget = "default";
  std::vector<std::string> encoders, positions, tasks;  // empty: the defaults
  std::optional<int64_t> steps, seeds, layers, width, context, batch, depth;
  DataArguments data;
};

// What studies of texts and of sequences share.
template <class Options>
void TakeShared(const StudyArguments& arguments, const Context& context, Options& options) {
  if (!arguments.encoders.empty()) options.encoders = arguments.encoders;
  if (!arguments.positions.empty()) options.positions = arguments.positions;
  options.seeds = arguments.seeds.value_or(options.seeds);
  options.layers = arguments.layers.value_or(options.layers);
  options.width = arguments.width.value_or(options.width);
  options.context = arguments.context.value_or(options.context);
  options.batch = arguments.batch.value_or(options.batch);
  options.seed = context.seed;
  options.threads = ThreadsOf(context);
  options.quiet = context.quiet;
}

lab::StudyOptions OptionsOf(const StudyArguments& arguments, const Context& context) {
  lab::StudyOptions options = lab::BudgetOptions(arguments.budget);
  TakeShared(arguments, context, options);
  if (arguments.steps) {
    options.causal_steps = options.masked_steps = options.depth.steps = options.tasks.steps = *arguments.steps;
  }
  if (arguments.depth) options.depth = lab::AtMost(*arguments.depth, options.depth);
  if (!arguments.tasks.empty()) options.tasks.tasks = arguments.tasks;
  if (arguments.tasks == std::vector<std::string>{"none"}) options.tasks.tasks.clear();
  return options;
}

lab::SeriesOptions SeriesOptionsOf(const StudyArguments& arguments, const Context& context) {
  if (!arguments.tasks.empty()) throw InvalidArgument("tasks: a study of labelled sequences has no such section");
  if (arguments.depth) throw InvalidArgument("depth: a study of labelled sequences has no such section");
  lab::SeriesOptions options = lab::SeriesBudget(arguments.budget);
  TakeShared(arguments, context, options);
  options.steps = arguments.steps.value_or(options.steps);
  return options;
}

int RunStudyCommand(const StudyArguments& arguments, const Context& context) {
  if (arguments.data.Given()) {
    return RunDataStudy(arguments.text, arguments.data, SeriesOptionsOf(arguments, context), arguments.out, context);
  }
  const lab::StudyOptions options = OptionsOf(arguments, context);
  lab::Validate(options);
  const lab::Text text = lab::TextOrReference(arguments.text, context.quiet);
  lab::WatchForInterrupt();
  const lab::StudyResult result = lab::RunStudy(text, options, arguments.out);
  lab::WriteStudy(result, arguments.out);
  const std::string page = (std::filesystem::path(arguments.out) / "report.html").string();
  if (context.json) {
    nlohmann::ordered_json summary = lab::StudyJson(result, /*curves=*/false);
    summary["page"] = page;
    std::cout << lab::JsonText(summary, 2) << "\n";
  } else {
    for (const lab::Finding& finding : lab::Conclusion(result)) {
      std::cout << finding.question << "\n  " << finding.answer << "\n";
    }
  }
  if (!context.quiet) std::fprintf(stderr, "wrote %s\n", page.c_str());
  return 0;
}

}  // namespace

void AddStudy(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<StudyArguments>();
  CLI::App* command =
      app.add_subcommand("study", "Compare encoders and notions of order on a text, or on labelled sequences, as one page");
  AddName(*command, "TEXT", arguments->text,
          "UTF-8 file; - for standard input; default: CPython's language reference; CSV or NPY with --target");
  AddName(*command, "--out", arguments->out,
          "Folder for report.html, its figures and numbers; a study that was stopped goes on")
      ->capture_default_str();
  command->add_option("--budget", arguments->budget, "quick: a minute, default: five, long: an hour, on two cores")
      ->capture_default_str();
  const auto list = [command](const char* name, std::vector<std::string>& values, const std::string& text) {
    command->add_option(name, values, text)->expected(1, -1)->delimiter(',');
  };
  const auto some_of = [](const std::vector<std::string>& known, const std::vector<std::string>& chosen) {
    return fmt::format("Some of {}; default: {}", fmt::join(known, ", "), fmt::join(chosen, ", "));
  };
  const lab::StudyOptions defaults;
  list("--encoders", arguments->encoders, some_of(nn::EncoderNames(), defaults.encoders));
  list("--positions", arguments->positions, some_of(nn::PositionSchemeNames(), defaults.positions));
  list("--tasks", arguments->tasks, "Synthetic tasks of the last section, by the names of 'heed tasks'; none: without it");
  const auto add = [command](const char* name, std::optional<int64_t>& value, const char* text) {
    command->add_option(name, value, text)->group("Instead of the budget's");
  };
  add("--steps", arguments->steps, "Training steps of a run");
  add("--seeds", arguments->seeds, "Runs of a model");
  add("--layers", arguments->layers, "Layers");
  add("--width", arguments->width, "Features of a step");
  add("--context", arguments->context, "Characters of a training window");
  add("--batch", arguments->batch, "Windows a step");
  add("--depth", arguments->depth,
      "Most layers of the stacks in the section on depth, which has no more than the budget's; 0: without it");
  AddDataOptions(*command, arguments->data);
  command->footer(
      "Examples:\n  heed study book.txt --out report\n"
      "  heed study book.txt --budget quick --encoders attention,gru --positions none,alibi --out report\n"
      "  heed study walks.csv --sequence walk --time seconds --target label --out report");
  command->callback(
      [arguments, &run] { run = [arguments](const Context& context) { return RunStudyCommand(*arguments, context); }; });
}

}  // namespace heed::cli
