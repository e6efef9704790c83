// heed positions: the positional encoding, its figures and the rotation that shifts it.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/place.h"
#include "heed/error.h"
#include "lab/positions/scheme_table.h"
#include "lab/report/html.h"
#include "lab/report/json.h"
#include "lab/report/output_place.h"
#include "lab/training/trained_model.h"

namespace heed::cli {
namespace {

constexpr int64_t kBinaryLines = 8;

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

struct Written {
  std::string page;  // empty: nothing was asked for
  std::vector<std::pair<std::string, lab::FigureFiles>> figures;
};

std::string Scientific(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.*e", digits, value);
  return text;
}

std::vector<std::vector<std::string>> CheckRows(const lab::RotationCheck& check) {
  const std::string bound = Scientific(lab::RotationCheck::kBound, 0);
  const std::string share = std::to_string(std::lround(100 * check.least_squares_share)) + " %";
  return {{"table against angles in double precision", Scientific(check.table_error, 2), bound},
          {"row i turned by delta against row i + delta, " + std::to_string(check.shifts) + " pairs of i and delta",
           Scientific(check.rotation_error, 2), bound},
          {"map fitted to neighbouring rows by least squares against the rotation by one step",
           Scientific(check.least_squares_error, 2), "what rounding to float allows, of which this is " + share}};
}

constexpr char kUnpaired[] =
    "The width is odd: its last column is a sine without its cosine, which no linear map shifts; it is left out.";

Written WriteFigures(const Arguments& arguments, const std::vector<lab::Figure>& figures,
                     const std::vector<std::string>& binary, const lab::RotationCheck* check) {
  const std::filesystem::path directory = arguments.out;
  Written written;
  lab::Report report("Positional encoding: " + arguments.options.scheme);
  report.Section("Figures");
  for (const lab::Figure& figure : figures) {
    written.figures.emplace_back(figure.name, lab::WriteFigure(figure, directory));
    report.Add(figure, written.figures.back().second);
  }
  if (arguments.options.scheme == "sinusoidal") {
    report.Section("Binary numbers");
    report.Paragraph(
        "The lowest digit alternates at every number, the next at every second, and so on: columns of the encoding do "
        "the same with sines and cosines of falling frequency.");
    lab::Table numbers{"", {"Number"}, {}};
    for (const std::string& line : binary) numbers.rows.push_back({line});
    report.Add(numbers);
  }
  if (check != nullptr) {
    report.Section("The rotation that shifts a position");
    report.Add(lab::Table{"Largest absolute errors of the table", {"Comparison", "Error", "Bound"}, CheckRows(*check)});
    if (check->unpaired_columns != 0) report.Paragraph(kUnpaired);
  }
  written.page = (directory / "positions.html").string();
  report.Write(written.page);
  return written;
}

void PrintJson(const lab::PositionsOptions& options, const std::vector<std::string>& binary, const Written& written,
               const lab::RotationCheck* check) {
  nlohmann::ordered_json result = {{"scheme", options.scheme},
                                   {"steps", options.steps},
                                   {"width", options.width},
                                   {"columns", {options.first_column, options.last_column}},
                                   {"binary", binary}};
  if (!written.page.empty()) {
    result["page"] = written.page;
    for (const auto& [name, files] : written.figures) {
      nlohmann::ordered_json figure = {{"name", name}, {"svg", files.svg.string()}, {"csv", files.csv.string()}};
      if (!files.npy.empty()) figure["npy"] = files.npy.string();
      result["figures"].push_back(std::move(figure));
    }
  }
  if (check != nullptr) {
    result["check"] = {{"table_error", check->table_error},
                       {"rotation_error", check->rotation_error},
                       {"least_squares_error", check->least_squares_error},
                       {"least_squares_share", check->least_squares_share},
                       {"shifts", check->shifts},
                       {"unpaired_columns", check->unpaired_columns},
                       {"bound", lab::RotationCheck::kBound},
                       {"passed", check->Passed()}};
  }
  std::cout << lab::JsonText(result, 2) << "\n";
}

void PrintText(const std::vector<std::string>& binary, const lab::RotationCheck* check) {
  for (const std::string& line : binary) std::cout << line << "\n";
  if (check == nullptr) return;
  std::cout << "\nLargest errors:\n";
  for (const std::vector<std::string>& row : CheckRows(*check)) {
    std::cout << "  " << row[1] << "  " << row[0] << " (bound: " << row[2] << ")\n";
  }
  if (check->unpaired_columns != 0) std::cout << kUnpaired << "\n";
  std::cout << (check->Passed() ? "passed" : "FAILED") << "\n";
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
  const std::vector<lab::Figure> figures = lab::PositionFigures(options, trained);
  if (!arguments.out.empty()) lab::RequireWritableFolder(arguments.out);
  lab::RotationCheck check;
  if (arguments.check) check = lab::CheckRotation(arguments.options);
  const lab::RotationCheck* checked = arguments.check ? &check : nullptr;
  const std::vector<std::string> binary = lab::BinaryTable(kBinaryLines);
  Written written;
  if (!arguments.out.empty()) written = WriteFigures(arguments, figures, binary, checked);

  context.json ? PrintJson(arguments.options, binary, written, checked) : PrintText(binary, checked);
  if (!written.page.empty() && !context.quiet) std::cerr << "wrote " << written.page << "\n";
  return arguments.check && !check.Passed() ? 1 : 0;
}

}  // namespace

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
    if (name != "none") known += (known.empty() ? "" : ", ") + name;
  }
  CLI::Option* scheme = command->add_option("--scheme", options.scheme, "One of " + known)->capture_default_str();
  command
      ->add_option("--max-distance", options.max_distance,
                   "Where relative and shaw clip offsets, and from where t5 has one bucket")
      ->capture_default_str();
  AddName(*command, "--run", arguments->run, "Folder of a training run: draw what its model has learnt, in its sizes");
  command->add_option("--layer", arguments->layer, "Layer of the run, counted from 0")->capture_default_str();
  AddName(*command, "--out", arguments->out, "Directory for positions.html, the figures and their numbers");
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

}  // namespace heed::cli
