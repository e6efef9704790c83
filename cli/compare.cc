// heed compare: what convolution, recurrence and self-attention cost, and how far they reach, counted and measured.
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/fields.h"
#include "cli/place.h"
#include "cli/table.h"
#include "lab/comparison/comparison.h"
#include "lab/comparison/output.h"
#include "lab/report/html.h"
#include "lab/report/json.h"
#include "lab/report/output_place.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct CompareArguments {
  lab::ComparisonOptions options;
  std::vector<std::string> layers;
  std::string lengths = "16:1024";
  std::string out;
  bool check = false;
  bool no_time = false;
};

void PrintText(const lab::Comparison& comparison, bool check) {
  for (const lab::Table& table : lab::ComparisonTables(comparison)) PrintTable(table);
  if (!check) return;
  for (const lab::ComparisonCheck& one : lab::Checks(comparison)) {
    fmt::print("{}  {}: {}\n", one.passed ? "passed" : "FAILED", one.what, one.found);
  }
}

void PrintJson(const lab::Comparison& comparison, bool check, const std::string& page) {
  nlohmann::ordered_json json = lab::ComparisonJson(comparison);
  if (!page.empty()) json["page"] = page;
  for (const lab::ComparisonCheck& one : check ? lab::Checks(comparison) : std::vector<lab::ComparisonCheck>()) {
    json["checks"].push_back({{"what", one.what}, {"passed", one.passed}, {"found", one.found}});
  }
  fmt::print("{}\n", lab::JsonText(json, 2));
}

int RunCompare(CompareArguments arguments, const Context& context) {
  lab::ComparisonOptions& options = arguments.options;
  if (!arguments.layers.empty()) options.layers = lab::LayersNamed(arguments.layers);
  options.lengths = ParseLengths(lab::Whole("lengths", &options.lengths, 1, 1 << 20, ""), arguments.lengths);
  options.measure_time = !arguments.no_time;
  options.seed = context.seed;
  options.quiet = context.quiet;
  if (!arguments.out.empty()) lab::RequireWritableFolder(arguments.out);
  lab::WatchForInterrupt();
  const lab::Comparison comparison = lab::Compare(options);

  std::string page;
  if (!arguments.out.empty()) {
    page = (std::filesystem::path(arguments.out) / "compare.html").string();
    lab::Report report("Convolution, recurrence and self-attention");
    lab::AddComparison(comparison, arguments.out, report);
    report.Write(page);
  }
  context.json ? PrintJson(comparison, arguments.check, page) : PrintText(comparison, arguments.check);
  if (!page.empty() && !context.quiet) fmt::print(stderr, "wrote {}\n", page);
  return arguments.check && !comparison.AllAgree() ? 1 : 0;
}

}  // namespace

void AddCompare(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<CompareArguments>();
  lab::ComparisonOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("compare", "Count and measure convolution, recurrence and self-attention");
  std::string known;
  for (const lab::Layer* layer : lab::AllLayers()) known += (known.empty() ? "" : ", ") + layer->facts().id;
  AddList(*command, "--layers", arguments->layers, "Some of " + known + "; default: all");
  command->add_option("--lengths", arguments->lengths, "Tokens: FIRST:LAST doubles, commas list")->capture_default_str();
  command->add_option("--width", options.width, "Width of the layers")->capture_default_str();
  command->add_option("--kernel", options.kernel, "Window of the convolutions, odd")->capture_default_str();
  command->add_option("--heads", options.heads, "Heads of self-attention")->capture_default_str();
  command->add_option("--window", options.window, "Tokens that windowed self-attention sees to either side")
      ->capture_default_str();
  command->add_option("--influence", options.influence_length, "Tokens of the influence curves; 0: none")
      ->capture_default_str();
  AddName(*command, "--out", arguments->out, "Directory for compare.html, compare.csv, compare.json and the figures");
  command->add_flag("--no-time", arguments->no_time, "Count only; the output is then the same every time");
  command->add_flag(
      "--check", arguments->check,
      "Check counts against the formulas, values against heed's layers and exponents against theory; exit 1 when any "
      "differs");
  command->footer(
      "Example:\n  heed compare --check --out comparison\n"
      "  heed compare --layers rnn,lstm,attention --lengths 10,100,1000 --width 32 --no-time");
  command->callback(
      [arguments, &run] { run = [arguments](const Context& context) { return RunCompare(*arguments, context); }; });
}

}  // namespace heed::cli
