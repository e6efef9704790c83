#include "cli/data_study.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include <fmt/ranges.h>

#include "cli/outcome.h"
#include "cli/place.h"
#include "heed/error.h"
#include "lab/report/shell_word.h"
#include "lab/series/data.h"
#include "lab/series/findings.h"
#include "lab/series/series.h"
#include "lab/training/interrupt.h"

namespace heed::cli {
namespace {

constexpr char kGroup[] = "For labelled sequences (CSV or NPY) instead of a text";

bool IsNpy(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".npy";
}

lab::SeriesData ReadData(const std::string& path, const DataArguments& arguments) {
  if (path.empty()) throw InvalidArgument("TEXT: expected a CSV or NPY file, as --target or --goal is given");
  if (IsNpy(path)) {
    for (const auto& [option, given] :
         {std::pair("sequence", !arguments.sequence.empty()), std::pair("time", !arguments.time.empty()),
          std::pair("features", !arguments.features.empty())}) {
      if (given) throw InvalidArgument(std::string(option) + ": an NPY file has no columns; only CSV files do");
    }
    return lab::ReadSeriesNpy(path, arguments.target, arguments.goal);
  }
  if (arguments.target.empty()) throw InvalidArgument("target: expected the column to foretell");
  return lab::ReadSeriesCsv(path, {.target = arguments.target,
                                   .sequence = arguments.sequence,
                                   .time = arguments.time,
                                   .features = arguments.features,
                                   .goal = arguments.goal});
}

// As a command that gives the same numbers.
std::string CommandOf(const std::string& path, const DataArguments& arguments, const lab::SeriesOptions& options,
                      const std::filesystem::path& folder) {
  std::string command = "study " + lab::ShellWord(path);
  const auto add = [&command](const char* name, const std::string& value) {
    if (!value.empty()) command += fmt::format(" {} {}", name, lab::ShellWord(value));
  };
  add("--target", arguments.target);
  add("--sequence", arguments.sequence);
  add("--time", arguments.time);
  add("--features", fmt::format("{}", fmt::join(arguments.features, ",")));
  add("--goal", arguments.goal);
  lab::SeriesOptions own = options, budget = lab::SeriesBudget(options.budget);
  return lab::CommandLine(command, "", options.budget, FieldsOf(own), FieldsOf(budget), folder);
}

}  // namespace

bool DataArguments::Given() const {
  if (!target.empty() || !goal.empty()) return true;
  for (const auto& [option, given] :
       {std::pair("sequence", !sequence.empty()), std::pair("time", !time.empty()), std::pair("features", !features.empty())}) {
    if (given)
      throw InvalidArgument(std::string(option) + ": is for labelled sequences; expected --target or --goal beside it");
  }
  return false;
}

void AddDataOptions(CLI::App& command, DataArguments& arguments) {
  const auto name = [&command](const char* option, std::string& value, const char* text) {
    AddName(command, option, value, text)->group(kGroup);
  };
  name("--target", arguments.target,
       "Column of a CSV file to predict, one value a sequence or a step; for X.npy the file of y");
  name("--sequence", arguments.sequence, "Column that tells which sequence a row belongs to; default: all rows are one");
  name("--time", arguments.time, "Column of times, real numbers that increase; they become positions");
  AddList(command, "--features", arguments.features, "Columns to look at; default: all others")->group(kGroup);
  name("--goal", arguments.goal,
       "classification, regression or forecast (of the target's next values); default: by the target's values");
}

int RunDataStudy(const std::string& path, const DataArguments& arguments, const lab::SeriesOptions& options, bool horizon,
                 const std::string& out, const Context& context) {
  lab::Validate(options);
  const lab::SeriesData data = ReadData(path, arguments);
  if (horizon && data.goal != lab::SeriesGoal::kForecast) {
    throw InvalidArgument("horizon: only a forecast foretells values; the goal is " + ToString(data.goal));
  }
  lab::WatchForInterrupt();
  const lab::SeriesResult result = lab::RunSeries(data, options, out);
  const auto command_of = [&](const lab::SeriesOptions& of, const std::filesystem::path& folder) {
    return CommandOf(path, arguments, of, folder);
  };
  const std::filesystem::path page = lab::WriteSeries(result, command_of, out);
  Show(context, lab::SeriesJson(result), page, [&] { PrintFindings(lab::SeriesConclusion(result)); });
  return 0;
}

}  // namespace heed::cli
