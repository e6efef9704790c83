#include "cli/data_file.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include <fmt/ranges.h>

#include "cli/place.h"
#include "heed/error.h"
#include "lab/report/shell_word.h"

namespace heed::cli {
namespace {

constexpr char kGroup[] = "For labelled sequences (CSV or NPY) instead of a text";

// Throws InvalidArgument that names the first option which only a CSV file has.
void RequireNoColumns(const DataArguments& arguments, const std::string& why) {
  for (const auto& [option, given] :
       {std::pair("sequence", !arguments.sequence.empty()), std::pair("time", !arguments.time.empty()),
        std::pair("part", !arguments.part.empty()), std::pair("features", !arguments.features.empty())}) {
    if (given) throw InvalidArgument(option + (": " + why));
  }
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
  return false;
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
  add("--goal", goal);
  return words;
}

void AddDataOptions(CLI::App& command, DataArguments& arguments) {
  const auto name = [&command](const char* option, std::string& value, const char* text) {
    AddName(command, option, value, text)->group(kGroup);
  };
  name("--target", arguments.target,
       "Column of a CSV file to predict, one value a sequence or a step; for X.npy the file of y");
  name("--sequence", arguments.sequence, "Column that tells which sequence a row belongs to; default: all rows are one");
  name("--time", arguments.time, "Column of times, real numbers that increase; they become positions");
  name("--part", arguments.part,
       "Column that says training, validation or test of each row; default: parts are drawn with a fixed seed");
  AddList(command, "--features", arguments.features, "Columns to look at; default: all others")->group(kGroup);
  name("--goal", arguments.goal,
       "classification, regression or forecast (of the target's next values); default: by the target's values");
}

lab::SeriesData ReadData(const std::string& path, const DataArguments& arguments) {
  if (path.empty()) throw InvalidArgument("TEXT: expected a CSV or NPY file, as --target or --goal is given");
  if (IsNpy(path)) RequireNoColumns(arguments, "an NPY file has no columns; only CSV files do");
  if (!IsNpy(path) && arguments.target.empty()) throw InvalidArgument("target: expected the column to foretell");
  return IsNpy(path) ? lab::ReadSeriesNpy(path, arguments.target, arguments.goal)
                     : lab::ReadSeriesCsv(path, {.target = arguments.target,
                                                 .sequence = arguments.sequence,
                                                 .time = arguments.time,
                                                 .features = arguments.features,
                                                 .goal = arguments.goal,
                                                 .part = arguments.part});
}

lab::SeriesData ReadData(const std::string& path, const DataArguments& arguments, const FieldFlags& flags) {
  if (flags.Given("validation_share") && !arguments.part.empty())
    throw InvalidArgument("validation_share: expected none, as the column of --part says which rows validate");
  lab::SeriesData data = ReadData(path, arguments);
  if (flags.Given("horizon") && data.goal != lab::SeriesGoal::kForecast)
    throw InvalidArgument("horizon: only a forecast foretells values; the goal is " + ToString(data.goal));
  return data;
}

}  // namespace heed::cli
