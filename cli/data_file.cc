#include "cli/data_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/outcome.h"
#include "heed/error.h"
#include "lab/report/json.h"
#include "lab/report/printable.h"

namespace heed::cli {
namespace {

constexpr char kGroup[] = "For labelled sequences (CSV or NPY) instead of a text";

void RequireNoCsvOptions(const lab::CsvOptions& csv, const std::string& why) {
  for (const auto& [option, given] : {std::pair("separator", !csv.separator.empty()),
                                      std::pair("decimal", !csv.decimal.empty()), std::pair("no_header", !csv.header)}) {
    if (given) throw InvalidArgument(option + (": " + why));
  }
}

// Throws InvalidArgument that names the first option which only a CSV file has.
void RequireNoColumns(const DataArguments& arguments, const std::string& why) {
  for (const auto& [option, given] :
       {std::pair("sequence", !arguments.sequence.empty()), std::pair("time", !arguments.time.empty()),
        std::pair("part", !arguments.part.empty()), std::pair("features", !arguments.features.empty()),
        std::pair("categories", !arguments.categories.empty()), std::pair("date_order", !arguments.date_order.empty())}) {
    if (given) throw InvalidArgument(option + (": " + why));
  }
  RequireNoCsvOptions(arguments.csv, why);
}

// A list of names, in one word with commas or in several.
void AddColumns(CLI::App& command, const char* option, std::vector<std::string>& columns, const char* text) {
  command.add_option(option, columns, text)->delimiter(',')->group(kGroup);
}

// Those that tell how a CSV file is written.
void AddCsvOptions(CLI::App& command, lab::CsvOptions& csv) {
  AddName(command, "--separator", csv.separator,
          "Separator of the cells of a CSV file: comma, semicolon, tab, bar or a character; default: found")
      ->group(kGroup);
  AddName(command, "--decimal", csv.decimal, "Decimal mark of its numbers: point or comma; default: found")->group(kGroup);
  command.add_flag("!--no-header", csv.header, "The first row of the CSV file holds values; the columns are called c1, c2, ..")
      ->group(kGroup);
}

// "1 to 5", of dates the days.
std::string RangeOf(const lab::SeriesColumn& column) {
  if (column.holds == "texts") {
    std::vector<std::string> some(column.texts.begin(),
                                  column.texts.begin() + std::min<std::ptrdiff_t>(3, std::ssize(column.texts)));
    return fmt::format("{}: {}{}", column.texts.size(), fmt::join(some, ", "), column.texts.size() > 3 ? ", .." : "");
  }
  if (column.holds == "dates")
    return column.low == column.high ? std::string() : fmt::format("{} to {}", lab::DayOf(column.low), lab::DayOf(column.high));
  return column.holds == "nothing" ? std::string() : fmt::format("{:g} to {:g}", column.low, column.high);
}

}  // namespace

bool IsNpy(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".npy";
}

bool DataArguments::Given() const {
  if (!target.empty() || !goal.empty()) return true;
  RequireNoColumns(*this, "is for labelled sequences; expected --target or --goal beside it");
  if (dry_run) throw InvalidArgument("dry_run: is for labelled sequences; expected --target or --goal beside it");
  return false;
}

void DataArguments::TakeFile(std::string& text) {
  for (std::vector<std::string>* list : {&features, &categories}) {
    if (!text.empty() || list->size() < 2 || !std::filesystem::exists(list->back())) continue;
    text = list->back();
    list->pop_back();
  }
}

std::string DataArguments::Words(const std::string& path) const {
  std::string words = lab::ShellWord(path);
  const auto add = [&words](const char* name, const std::string& value) {
    if (!value.empty()) words += fmt::format(" {} {}", name, lab::ShellWord(value));
  };
  add("--target", target);
  add("--sequence", sequence);
  add("--time", time);
  add("--part", part);
  add("--features", fmt::format("{}", fmt::join(features, ",")));
  add("--categories", fmt::format("{}", fmt::join(categories, ",")));
  add("--goal", goal);
  add("--date-order", date_order);
  add("--separator", csv.separator);
  add("--decimal", csv.decimal);
  return csv.header ? words : words + " --no-header";
}

void AddDataOptions(CLI::App& command, DataArguments& arguments) {
  const auto name = [&command](const char* option, std::string& value, const char* text) {
    AddName(command, option, value, text)->group(kGroup);
  };
  name("--target", arguments.target,
       "Column of a CSV file to predict, one value a sequence or a step; a study forecasts several, as a,b; for X.npy the file "
       "of y");
  name("--sequence", arguments.sequence, "Column that names the sequence of a row; default: all rows are one sequence");
  name("--time", arguments.time, "Column of times, real numbers that increase, or dates; heed takes them as positions");
  name("--part", arguments.part,
       "Column that holds training, validation or test in each row; default: the study draws the parts with a fixed seed");
  AddColumns(command, "--features", arguments.features, "Columns that the models see, as x,y or x y; default: all others");
  AddColumns(command, "--categories", arguments.categories, "Features whose cells are names, even if they look like numbers");
  name("--goal", arguments.goal,
       "classification, regression or forecast (of the target's next values); default: by the target's values");
  name("--date-order", arguments.date_order,
       "Order in dates such as 01/02/2000: day or month first; default: found by days beyond 12");
  AddCsvOptions(command, arguments.csv);
  command.add_flag("--dry-run", arguments.dry_run, "Print how each column is read, and write nothing")->group(kGroup);
}

void AddLaterOptions(CLI::App& command, lab::LaterCsv& csv) {
  AddCsvOptions(command, csv);
  AddName(command, "--new-categories", csv.new_categories,
          "Texts that are no category of the model: refuse them, or count them as-missing, as empty cells; default: refuse")
      ->group(kGroup);
}

void RequireNoLaterOptions(const lab::LaterCsv& csv, const std::string& why) {
  if (!csv.new_categories.empty()) throw InvalidArgument("new_categories: " + why);
  RequireNoCsvOptions(csv, why);
}

std::vector<lab::SeriesData> ReadData(const std::string& path, const DataArguments& arguments, const FieldFlags* flags,
                                      bool several) {
  if (flags != nullptr && flags->Given("validation_share") && !arguments.part.empty())
    throw InvalidArgument("validation_share: expected none, as the column of --part says which rows validate");
  if (path.empty()) throw InvalidArgument("TEXT: expected a CSV or NPY file, as --target or --goal is given");
  std::vector<lab::SeriesData> data;
  if (IsNpy(path)) {
    RequireNoColumns(arguments, "an NPY file has no columns; only CSV files do");
    data.push_back(lab::ReadSeriesNpy(path, arguments.target, arguments.goal));
  } else {
    if (arguments.target.empty()) throw InvalidArgument("target: expected the column to predict");
    data = several ? lab::ReadForecastsCsv(path, arguments) : std::vector{lab::ReadSeriesCsv(path, arguments)};
  }
  if (flags != nullptr && flags->Given("horizon") && !data.front().Forecasts())
    throw InvalidArgument("horizon: only a forecast predicts values; the goal is " + data.front().goal);
  return data;
}

void TellNotes(const std::string& name, const std::vector<std::string>& notes, const Context& context) {
  if (context.quiet) return;
  for (const std::string& note : notes) fmt::print(stderr, "heed: {}: {}\n", name, lab::Printable(note));
}

void PrintData(lab::SeriesData data, int64_t horizon, const Context& context) {
  if (data.Forecasts())
    data.notes.push_back(fmt::format("A forecast predicts the next {} (--horizon {}).",
                                     horizon == 1 ? "value" : fmt::format("{} values", horizon), horizon));
  if (context.json) {
    nlohmann::ordered_json columns = nlohmann::ordered_json::array();
    for (const lab::SeriesColumn& column : data.file_columns) {
      nlohmann::ordered_json one = {
          {"name", column.name}, {"role", column.role}, {"holds", column.holds}, {"missing", column.missing}};
      if (column.holds == "texts" && column.role != "sequence") one["texts"] = column.texts;
      if (column.holds != "texts" && column.holds != "nothing") one["low"] = column.low, one["high"] = column.high;
      columns.push_back(std::move(one));
    }
    const nlohmann::ordered_json json = {{"data", data.name},
                                         {"goal", data.goal},
                                         {"sequences", data.sequences.size()},
                                         {"steps", data.Steps()},
                                         {"columns", std::move(columns)},
                                         {"notes", data.notes}};
    fmt::print("{}\n", lab::JsonText(json));
    return;
  }
  lab::Table table{fmt::format("{}: {} of '{}', {} sequence{}, {} steps", data.name, data.goal, data.target,
                               data.sequences.size(), data.sequences.size() == 1 ? "" : "s", data.Steps()),
                   {"column", "role", "holds", "from, to", "missing"},
                   {}};
  for (const lab::SeriesColumn& column : data.file_columns)
    table.rows.push_back({column.name, column.role, column.holds, RangeOf(column), std::to_string(column.missing)});
  PrintTable(table);
  for (const std::string& note : data.notes) fmt::print("  {}\n", lab::Printable(note));
}

}  // namespace heed::cli
