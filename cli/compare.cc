// heed compare: what convolution, recurrence and self-attention cost, and how far they reach, counted and measured.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "book/comparison/comparison.h"
#include "book/comparison/output.h"
#include "cli/command.h"
#include "cli/fields.h"
#include "cli/outcome.h"
#include "lab/report/file.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

struct CompareArguments {
  explicit CompareArguments(CLI::App& command) : flags(command, FieldsOf(described, layers), FieldFlags::Of::kCommand) {
    AddName(command, "--out", out, "Folder for report.html, compare.csv, compare.json and the figures");
    command.add_flag(
        "--check", check,
        "Check counts against the formulas, values against heed's layers and exponents against theory; exit 1 when any "
        "differs");
    command.footer(
        "Example:\n  heed compare --check --out comparison\n"
        "  heed compare --encoders rnn,lstm,attention --lengths 10,100,1000 --width 32 --no-time");
  }

  lab::ComparisonOptions described;
  std::vector<std::string> layers = lab::LayerNames();
  std::string out;
  bool check = false;
  FieldFlags flags;
};

lab::ComparisonOptions OptionsOf(const CompareArguments& arguments, const Context& context) {
  lab::ComparisonOptions options;
  std::vector<std::string> layers = lab::LayerNames();
  arguments.flags.Apply(FieldsOf(options, layers), "a comparison");
  options.layers = lab::LayersNamed(layers);
  options.seed = context.seed;
  options.quiet = context.quiet;
  return options;
}

void PrintText(const lab::Comparison& comparison, bool check) {
  for (const lab::Table& table : lab::ComparisonTables(comparison)) PrintTable(table);
  if (!check) return;
  for (const lab::ComparisonCheck& one : lab::Checks(comparison)) {
    fmt::print("{}  {}: {}\n", one.passed ? "passed" : "FAILED", one.what, one.found);
  }
}

nlohmann::ordered_json JsonOf(const lab::Comparison& comparison, bool check) {
  nlohmann::ordered_json json = lab::ComparisonJson(comparison);
  for (const lab::ComparisonCheck& one : check ? lab::Checks(comparison) : std::vector<lab::ComparisonCheck>()) {
    json["checks"].push_back({{"what", one.what}, {"passed", one.passed}, {"found", one.found}});
  }
  return json;
}

int RunCompare(const CompareArguments& arguments, const Context& context) {
  const lab::ComparisonOptions options = OptionsOf(arguments, context);
  if (!arguments.out.empty()) lab::RequireWritableFolder(arguments.out);
  lab::WatchForInterrupt();
  const lab::Comparison comparison = lab::Compare(options);

  const std::filesystem::path folder = arguments.out;
  const std::filesystem::path page = folder.empty() ? folder : lab::WriteComparison(comparison, folder);
  Show(context, JsonOf(comparison, arguments.check), page, [&] { PrintText(comparison, arguments.check); });
  return arguments.check && !comparison.AllAgree() ? 1 : 0;
}

const Command kCompare(70, "compare", "Count and measure convolution, recurrence and self-attention", &RunCompare);

}  // namespace
}  // namespace heed::cli
