// heed positions: the positional encoding, its figures and the rotation that shifts it.
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "cli/command.h"
#include "cli/outcome.h"
#include "cli/place.h"
#include "heed/error.h"
#include "lab/positions/output.h"
#include "lab/positions/scheme_table.h"
#include "lab/report/output_place.h"
#include "lab/training/trained_model.h"

namespace heed::cli {
namespace {

struct Arguments {
  lab::PositionsOptions options;
  std::string columns;  // empty: the book's, or the last four of a table too narrow for them
  std::string out;
  std::string run;  // folder of a training run whose table is drawn
  int64_t layer = 0;
  bool scheme_given = false, check = false;
};

// "6:10" as [6, 10).
std::pair<int64_t, int64_t> ParseColumns(const std::string& text) {
  int64_t first = 0, last = 0;
  const char* const end = text.data() + text.size();
  const auto [colon, error] = std::from_chars(text.data(), end, first);
  if (error == std::errc() && colon != end && *colon == ':') {
    const auto [rest, last_error] = std::from_chars(colon + 1, end, last);
    if (last_error == std::errc() && rest == end) return {first, last};
  }
  throw InvalidArgument("--columns: expected FIRST:LAST, as 6:10, got '" + text + "'");
}

// What the model of a run has trained, and the sizes of its scheme. The columns that are drawn are its first heads, at most
// four.
std::optional<lab::SchemeTable> TableOfRun(Arguments& arguments) {
  if (arguments.run.empty()) return std::nullopt;
  lab::PositionsOptions& options = arguments.options;
  const lab::RunFolder folder(arguments.run);
  const auto model = lab::OpenModel(folder);
  const lab::ModelOptions& trained = OptionsOf(*model);
  if (arguments.scheme_given && options.scheme != trained.position) {
    throw InvalidArgument("--scheme: the run in " + arguments.run + " was trained with '" + trained.position + "', not with '" +
                          options.scheme + "'");
  }
  const bool of_heads = trained.position == "alibi" || trained.position == "relative" || trained.position == "t5";
  const bool of_a_head = trained.position == "rotary" || trained.position == "shaw";
  options.scheme = trained.position;
  options.run = arguments.run, options.layer = arguments.layer;
  options.seed = folder.ReadConfig().options.seed;
  options.steps = trained.context;
  options.width = of_heads ? trained.heads : of_a_head ? trained.width / trained.heads : trained.width;
  if (of_heads && arguments.columns.empty())
    options.first_column = 0, options.last_column = std::min<int64_t>(4, options.width);
  return lab::TrainedTable(*model, arguments.layer);
}

void PrintText(const lab::PositionsResult& result) {
  fmt::print("{}\n", lab::AboutScheme(result.options.scheme));
  if (result.options.scheme == "sinusoidal") {
    for (const std::string& line : lab::BinaryLines()) fmt::print("{}\n", line);
  }
  if (!result.check) return;
  fmt::print("\nLargest errors:\n");
  for (const std::vector<std::string>& row : lab::CheckTable(*result.check).rows) {
    fmt::print("  {}  {} (bound: {})\n", row[1], row[0], row[2]);
  }
  const std::string note = lab::CheckNote(*result.check);
  if (!note.empty()) fmt::print("{}\n", note);
  fmt::print("{}\n", result.check->Passed() ? "passed" : "FAILED");
}

int RunPositions(Arguments arguments, const Context& context) {
  lab::PositionsOptions& options = arguments.options;
  options.seed = context.seed;
  const std::optional<lab::SchemeTable> trained = TableOfRun(arguments);
  if (!arguments.columns.empty()) {
    std::tie(options.first_column, options.last_column) = ParseColumns(arguments.columns);
  } else if (options.width < options.last_column) {
    options.last_column = options.width;
    options.first_column = std::max<int64_t>(0, options.width - 4);
  }
  // Before anything is written: the figures of a scheme that there is, with options that fit it.
  lab::PositionsResult result{options, lab::PositionFigures(options, trained), std::nullopt};
  const std::filesystem::path folder = arguments.out;
  if (!folder.empty()) lab::RequireWritableFolder(folder);
  if (arguments.check) result.check = lab::CheckRotation(options);
  const std::filesystem::path page = folder.empty() ? folder : lab::WritePositions(result, folder);
  Show(context, lab::PositionsJson(result, folder), page, [&] { PrintText(result); });
  return result.check && !result.check->Passed() ? 1 : 0;
}

void AddPositions(CLI::App& app, Run& run) {
  const auto arguments = std::make_shared<Arguments>();
  lab::PositionsOptions& options = arguments->options;
  CLI::App* command = app.add_subcommand("positions", "Draw the positional encoding and check the rotation that shifts it");
  command->add_option("--steps", options.steps, "Positions (rows)")->capture_default_str();
  command->add_option("--width", options.width, "Encoding dimensions (columns); heads of alibi, relative, t5")
      ->capture_default_str();
  AddName(*command, "--columns", arguments->columns, "Columns drawn as lines, FIRST:LAST without LAST; default 6:10");
  command->add_option("--label", options.column_label, "Name of a column in the legend, as Col or dim")->capture_default_str();
  std::string known;
  for (const std::string& name : lab::PositionSchemeNames()) {
    if (lab::HasPicture(name)) known += (known.empty() ? "" : ", ") + name;
  }
  CLI::Option* scheme = command->add_option("--scheme", options.scheme, "One of " + known)->capture_default_str();
  command
      ->add_option("--max-distance", options.max_distance,
                   "Where relative and shaw clip offsets, and from where t5 has one bucket")
      ->capture_default_str();
  AddName(*command, "--run", arguments->run, "Folder of a training run: draw what its model has learnt, in its sizes");
  command->add_option("--layer", arguments->layer, "Layer of the run, counted from 0")->capture_default_str();
  AddName(*command, "--out", arguments->out, "Folder for report.html, the figures and their numbers");
  command->add_flag("--check", arguments->check, "Check the table and the rotation; exit 1 when an error is above its bound");
  command->footer(
      "Examples:\n  heed positions --check --out positions\n"
      "  heed positions --steps 100 --width 20 --columns 4:8 --label dim --out positions\n"
      "  heed positions --run run --layer 1 --out positions\n");
  command->callback([arguments, scheme, &run] {
    arguments->scheme_given = scheme->count() > 0;
    run = [arguments](const Context& context) { return RunPositions(*arguments, context); };
  });
}

const Command kPositions(60, &AddPositions);

}  // namespace
}  // namespace heed::cli
