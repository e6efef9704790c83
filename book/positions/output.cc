#include "book/positions/output.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "book/positions/portrait.h"
#include "lab/report/page.h"

namespace heed::lab {

namespace {

std::string Error(double value) { return fmt::format("{:.2e}", value); }

}  // namespace

nlohmann::ordered_json RotationJson(const RotationCheck& check) {
  return {{"table_error", check.table_error},
          {"rotation_error", check.rotation_error},
          {"least_squares_error", check.least_squares_error},
          {"least_squares_share", check.least_squares_share},
          {"shifts", check.shifts},
          {"unpaired_columns", check.unpaired_columns},
          {"bound", RotationCheck::kBound},
          {"passed", check.Passed()}};
}

Table CheckTable(const RotationCheck& check) {
  const std::string bound = fmt::format("{:.0e}", RotationCheck::kBound);
  return {
      "Largest errors",
      {"Identity", "Error", "Bound"},
      {{"table against angles in double precision", Error(check.table_error), bound},
       {fmt::format("row i turned by delta against row i + delta, {} pairs of i and delta", check.shifts),
        Error(check.rotation_error), bound},
       {"map fitted to neighbouring rows by least squares against the rotation by one step", Error(check.least_squares_error),
        fmt::format("what rounding to float allows, of which this is {} %", std::lround(100 * check.least_squares_share))}}};
}

std::string CheckNote(const RotationCheck& check) {
  if (check.unpaired_columns == 0) return {};
  return "The width is odd: its last column is a sine without its cosine, which no linear map shifts; it is left out.";
}

nlohmann::ordered_json PositionsJson(const PositionsResult& result, const std::filesystem::path& folder) {
  const PositionsOptions& options = result.options;
  nlohmann::ordered_json json = {{"scheme", options.scheme},
                                 {"about", AboutScheme(options.scheme)},
                                 {"steps", options.steps},
                                 {"width", options.width},
                                 {"columns", {options.first_column, options.last_column}}};
  if (options.scheme == "sinusoidal") json["binary"] = BinaryTable();
  for (const Figure& figure : folder.empty() ? std::vector<Figure>() : result.figures) {
    const FigureFiles files = FilesOf(figure, folder);
    nlohmann::ordered_json drawn = {{"name", figure.name}, {"svg", files.svg.string()}, {"csv", files.csv.string()}};
    if (!files.npy.empty()) drawn["npy"] = files.npy.string();
    json["figures"].push_back(std::move(drawn));
  }
  if (result.check) json["check"] = RotationJson(*result.check);
  return json;
}

std::filesystem::path WritePositions(const PositionsResult& result, const std::filesystem::path& folder) {
  Page page("Positional encoding: " + result.options.scheme, folder, CommandOf(result.options, folder), {});
  page.Say(AboutScheme(result.options.scheme));
  page.Section("Figures");
  for (const Figure& figure : result.figures) page.Show(figure);
  if (result.options.scheme == "sinusoidal") {
    page.Section("Binary numbers");
    page.Say(PositionTexts()("binary"));
    Table numbers{"", {"Number"}, {}};
    for (const std::string& line : BinaryTable()) numbers.rows.push_back({line});
    page.Show(numbers);
  }
  if (result.check) {
    page.Section("A shift is a rotation");
    page.Show(CheckTable(*result.check));
    page.Say(CheckNote(*result.check));
  }
  return page.Write();
}

}  // namespace heed::lab
