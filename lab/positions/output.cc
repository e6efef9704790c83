#include "lab/positions/output.h"

#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "lab/report/page.h"

namespace heed::lab {

std::vector<std::string> BinaryLines() { return BinaryTable(/*count=*/8); }

Table CheckTable(const RotationCheck& check) {
  const auto error = [](double value) { return fmt::format("{:.2e}", value); };
  const std::string bound = fmt::format("{:.0e}", RotationCheck::kBound);
  return {
      "Largest absolute errors of the table",
      {"Comparison", "Error", "Bound"},
      {{"table against angles in double precision", error(check.table_error), bound},
       {fmt::format("row i turned by delta against row i + delta, {} pairs of i and delta", check.shifts),
        error(check.rotation_error), bound},
       {"map fitted to neighbouring rows by least squares against the rotation by one step", error(check.least_squares_error),
        fmt::format("what rounding to float allows, of which this is {} %", std::lround(100 * check.least_squares_share))}}};
}

std::string CheckNote(const RotationCheck& check) {
  if (check.unpaired_columns == 0) return {};
  return "The width is odd: its last column is a sine without its cosine, which no linear map shifts; it is left out.";
}

std::string AboutScheme(const std::string& scheme) {
  if (scheme == "sinusoidal") {
    return "Each position is a row of sines and cosines whose frequencies fall from column to column, added to the input. The "
           "row of a position further on is the same row turned, by angles that depend on the shift alone.";
  }
  if (scheme == "learned") {
    return "Each position has a row of its own, which is trained and added to the input. Behind the last position of the "
           "training there is none.";
  }
  if (scheme == "rotary") {
    return "Queries and keys are turned, pair by pair of their columns, by angles in proportion to their positions, so that "
           "their product depends on the distance between them.";
  }
  if (scheme == "alibi") {
    return "Each head takes its slope times the distance from a score: what is far counts less, and nothing is trained.";
  }
  if (scheme == "relative") {
    return "Each head adds to a score a trained number for the offset of the key from the query. Offsets beyond the largest "
           "share its number.";
  }
  if (scheme == "t5") {
    return "Each head adds to a score a trained number for the bucket that the offset falls into: every small offset has one "
           "of its own, larger ones share by powers.";
  }
  return "A trained vector for the offset is added to the key, so that a score depends on what the query holds and on how far "
         "away the key is.";
}

nlohmann::ordered_json PositionsJson(const PositionsResult& result, const std::filesystem::path& folder) {
  const PositionsOptions& options = result.options;
  nlohmann::ordered_json json = {{"scheme", options.scheme},
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
  if (!result.check) return json;
  const RotationCheck& check = *result.check;
  json["check"] = {{"table_error", check.table_error},
                   {"rotation_error", check.rotation_error},
                   {"least_squares_error", check.least_squares_error},
                   {"least_squares_share", check.least_squares_share},
                   {"shifts", check.shifts},
                   {"unpaired_columns", check.unpaired_columns},
                   {"bound", RotationCheck::kBound},
                   {"passed", check.Passed()}};
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
    page.Section("The rotation that shifts a position");
    page.Show(CheckTable(*result.check));
    page.Say(CheckNote(*result.check));
  }
  return page.Write();
}

}  // namespace heed::lab
