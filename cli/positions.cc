// heed positions: a positional scheme, its figures and the identity that belongs to it.
#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "book/positions/output.h"
#include "cli/command.h"
#include "cli/outcome.h"
#include "heed/error.h"
#include "lab/report/file.h"
#include "lab/training/trainer.h"

namespace heed::cli {
namespace {

struct PositionsArguments {
  explicit PositionsArguments(CLI::App& command) {
    command
        .add_option("--steps", options.steps,
                    "Positions (rows); for axial_rotary, swin and swin_v2 the largest square of at most so many")
        ->capture_default_str();
    command
        .add_option("--width", options.width,
                    "Columns of the encoding, or of a head for rotary, axial_rotary, xpos, shaw; heads of the others")
        ->capture_default_str();
    AddName(command, "--columns", columns, "Columns to draw as lines, FIRST:LAST without LAST; default: 6:10");
    command.add_option("--label", options.column_label, "Name of a column in the legend, such as Col or dim")
        ->capture_default_str();
    const std::string known = fmt::format("One of {}", fmt::join(lab::PictureNames(), ", "));
    scheme = command.add_option("--scheme", options.scheme, known)->capture_default_str();
    command
        .add_option("--max-distance", options.max_distance,
                    "Largest offset of relative, shaw, transformer_xl and deberta, distance from which t5 has one bucket, and "
                    "number of positions of cope")
        ->capture_default_str();
    AddName(command, "--run", run, "Folder of a training run: draw the scheme that its model has learnt, in its sizes");
    command.add_option("--layer", layer, "Layer of the run, counted from 0")->capture_default_str();
    AddName(command, "--out", out, "Folder for report.html, the figures and their numbers");
    command.add_flag(
        "--check", check,
        "Check that a shift of positions is a rotation, of sinusoidal and rotary; exit 1 when an error is above its bound");
    command.footer(
        "Examples:\n  heed positions --check --out positions\n"
        "  heed positions --steps 100 --width 20 --columns 4:8 --label dim --out positions\n"
        "  heed positions --scheme kerple --width 8 --columns 0:4 --out positions\n"
        "  heed positions --run run --layer 1 --out positions\n");
  }

  lab::PositionsOptions options;
  std::string columns;  // empty: the book's, or the last four of a table too narrow for them
  std::string out;
  std::string run;  // folder of a training run whose table is drawn
  int64_t layer = 0;
  CLI::Option* scheme = nullptr;
  bool check = false;
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

// What a run has trained, as far as it trains; the sizes become those of its model. The columns that are drawn are its first,
// at most four, of heads.
std::optional<lab::SchemeTable> OpenRun(PositionsArguments& arguments) {
  if (arguments.run.empty()) return std::nullopt;
  lab::PositionsOptions& options = arguments.options;
  const lab::RunFolder folder(arguments.run);
  lab::LanguageModel model = lab::LoadModel(folder);
  const lab::ModelOptions& trained = model->options();
  if (arguments.scheme->count() > 0 && options.scheme != trained.position) {
    throw InvalidArgument("--scheme: the run in " + arguments.run + " was trained with '" + trained.position + "', not with '" +
                          options.scheme + "'");
  }
  options.scheme = trained.position;
  options.run = arguments.run, options.layer = arguments.layer;
  options.seed = folder.ReadConfig().options.seed;
  options.max_distance = lab::RelativeDistance(trained);
  lab::FitToModel(options, trained.width, trained.heads, trained.context);
  return lab::TrainedTable(model, arguments.layer);
}

void PrintText(const lab::PositionsResult& result) {
  fmt::print("{}\n", lab::AboutScheme(result.options.scheme));
  if (result.options.scheme == "sinusoidal") {
    for (const std::string& line : lab::BinaryTable()) fmt::print("{}\n", line);
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

int RunPositions(const PositionsArguments& given, const Context& context) {
  PositionsArguments arguments = given;
  lab::PositionsOptions& options = arguments.options;
  options.seed = context.seed;
  const std::optional<lab::SchemeTable> trained = OpenRun(arguments);
  if (!arguments.columns.empty()) {
    std::tie(options.first_column, options.last_column) = ParseColumns(arguments.columns);
  } else {
    lab::FitColumns(options);
  }
  // Before anything is written: the figures of a scheme that there is, with options that fit it.
  lab::PositionsResult result{options, lab::PositionFigures(options, trained), std::nullopt};
  const std::filesystem::path folder = arguments.out;
  if (arguments.check) result.check = lab::CheckRotation(options);
  if (!folder.empty()) lab::RequireWritableFolder(folder);
  const std::filesystem::path page = folder.empty() ? folder : lab::WritePositions(result, folder);
  Show(context, lab::PositionsJson(result, folder), page, [&] { PrintText(result); });
  return result.check && !result.check->Passed() ? 1 : 0;
}

const Command kPositions(60, "positions", "Draw and describe a positional scheme, and check its formulas", &RunPositions);

}  // namespace
}  // namespace heed::cli
