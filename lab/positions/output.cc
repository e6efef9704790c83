#include "lab/positions/output.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "lab/report/page.h"

namespace heed::lab {

std::vector<std::string> BinaryLines() { return BinaryTable(/*count=*/8); }

namespace {

std::string Error(double value) { return fmt::format("{:.2e}", value); }

void AddRows(Table& table, const RotationCheck& check) {
  const std::string bound = fmt::format("{:.0e}", RotationCheck::kBound);
  table.rows.push_back({"table against angles in double precision", Error(check.table_error), bound});
  table.rows.push_back({fmt::format("row i turned by delta against row i + delta, {} pairs of i and delta", check.shifts),
                        Error(check.rotation_error), bound});
  table.rows.push_back(
      {"map fitted to neighbouring rows by least squares against the rotation by one step", Error(check.least_squares_error),
       fmt::format("what rounding to float allows, of which this is {} %", std::lround(100 * check.least_squares_share))});
}

nlohmann::ordered_json ToJson(const PositionsCheck& check) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (check.rotation) {
    const RotationCheck& rotation = *check.rotation;
    json = {{"table_error", rotation.table_error},
            {"rotation_error", rotation.rotation_error},
            {"least_squares_error", rotation.least_squares_error},
            {"least_squares_share", rotation.least_squares_share},
            {"shifts", rotation.shifts},
            {"unpaired_columns", rotation.unpaired_columns},
            {"bound", RotationCheck::kBound}};
  }
  for (const Identity& identity : check.identities) {
    json["identities"].push_back({{"identity", identity.what}, {"error", identity.error}, {"bound", identity.bound}});
  }
  json["passed"] = check.Passed();
  return json;
}

}  // namespace

Table CheckTable(const PositionsCheck& check) {
  Table table{"Largest errors", {"Identity", "Error", "Bound"}, {}};
  if (check.rotation) AddRows(table, *check.rotation);
  for (const Identity& identity : check.identities) {
    table.rows.push_back({identity.what, Error(identity.error), fmt::format("{:.0e}", identity.bound)});
  }
  return table;
}

std::string CheckNote(const PositionsCheck& check) {
  if (!check.rotation || check.rotation->unpaired_columns == 0) return {};
  return "The width is odd: its last column is a sine without its cosine, which no linear map shifts; it is left out.";
}

nlohmann::ordered_json PositionsJson(const PositionsResult& result, const std::filesystem::path& folder) {
  const PositionsOptions& options = result.options;
  nlohmann::ordered_json json = {{"scheme", options.scheme},
                                 {"about", AboutScheme(options.scheme)},
                                 {"steps", options.steps},
                                 {"width", options.width},
                                 {"columns", {options.first_column, options.last_column}}};
  if (options.scheme == "sinusoidal") json["binary"] = BinaryLines();
  for (const Figure& figure : folder.empty() ? std::vector<Figure>() : result.figures) {
    const FigureFiles files = FilesOf(figure, folder);
    nlohmann::ordered_json drawn = {{"name", figure.name}, {"svg", files.svg.string()}, {"csv", files.csv.string()}};
    if (!files.npy.empty()) drawn["npy"] = files.npy.string();
    json["figures"].push_back(std::move(drawn));
  }
  if (result.check) json["check"] = ToJson(*result.check);
  return json;
}

std::filesystem::path WritePositions(const PositionsResult& result, const std::filesystem::path& folder) {
  Page page("Positional encoding: " + result.options.scheme, folder, CommandOf(result.options, folder), {});
  page.Say(AboutScheme(result.options.scheme));
  page.Section("Figures");
  for (const Figure& figure : result.figures) page.Show(figure);
  if (result.options.scheme == "sinusoidal") {
    page.Section("Binary numbers");
    page.Say(
        "The lowest digit alternates at every number, the next at every second, and so on: columns of the encoding do "
        "the same with sines and cosines of falling frequency.");
    Table numbers{"", {"Number"}, {}};
    for (const std::string& line : BinaryLines()) numbers.rows.push_back({line});
    page.Show(numbers);
  }
  if (result.check) {
    page.Section("What belongs to the scheme");
    page.Show(CheckTable(*result.check));
    page.Say(CheckNote(*result.check));
  }
  return page.Write();
}

}  // namespace heed::lab
