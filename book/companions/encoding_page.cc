#include "book/companions/companions.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "book/positions/output.h"
#include "heed/error.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

// How often a curve changes its sign.
int64_t SignChanges(const Series& series) {
  int64_t changes = 0;
  double last = 0;
  for (const double y : series.y) {
    if (y == 0) continue;
    if (y * last < 0) ++changes;
    last = y;
  }
  return changes;
}

// Each with the command of a page of its own below `folder`: none takes the place of another.
std::vector<Figure> EncodingFigures(const std::filesystem::path& folder) {
  PositionsOptions narrow, biases;
  narrow.steps = 100, narrow.width = 20, narrow.first_column = 4, narrow.last_column = 8, narrow.column_label = "dim";
  biases.scheme = "alibi", biases.width = 8, biases.first_column = 0, biases.last_column = 4;
  Figure dimensions = PositionFigures(narrow).front();
  dimensions.name = "positions-dimensions";
  dimensions.title = "Dimensions of a narrower encoding over more positions";
  std::vector<Figure> figures;
  const auto add = [&](const PositionsOptions& options, const char* name, const std::vector<Figure>& drawn) {
    for (const Figure& figure : drawn) {
      figures.push_back(figure);
      figures.back().command = CommandOf(options, folder / name);
    }
  };
  add({}, "positions", PositionFigures({}));
  add(narrow, "positions-narrow", {dimensions});
  add(biases, "positions-alibi", PositionFigures(biases));
  return figures;
}

std::string EncodingFinding(const RotationCheck& check, const std::vector<Figure>& figures) {
  std::string text;
  const auto* plot = figures.empty() ? nullptr : std::get_if<LinePlot>(&figures.front().content);
  if (plot != nullptr && plot->series.size() > 1) {
    const Series &first = plot->series.front(), &last = plot->series.back();
    text = fmt::format("Over {} positions, {} changes its sign {} times, {} {} times. ", first.y.size(), first.name,
                       SignChanges(first), last.name, SignChanges(last));
  }
  return text + fmt::format(
                    "For all {} pairs of a position and a shift, forwards and backwards, the row turned by the shift's "
                    "angles is the shifted row within {:.1e}{}; the linear map that least squares finds in the table alone "
                    "differs from that rotation by {:.1e} at most.",
                    check.shifts, check.rotation_error, check.Passed() ? "" : ", which is more than rounding explains",
                    check.least_squares_error);
}

void TellEncoding(const RotationCheck& check, Page& page) {
  const std::vector<Figure> figures = EncodingFigures(page.folder());
  page.Say(EncodingFinding(check, figures));
  for (const Figure& figure : figures) page.Show(figure);
  Table numbers{"Binary numbers do the same with digits: the last changes at every number, the one before at every second",
                {"Number"},
                {}};
  for (const std::string& line : BinaryTable()) numbers.rows.push_back({line});
  page.Show(numbers);
  page.Show(CheckTable(check));
}

// The picture of every other scheme that was studied, and what it says of a distance: as the run of the first seed has learnt
// it, with the first objective.
std::vector<Figure> LearntFigures(const StudyResult& result) {
  const StudyOptions& options = result.options;
  std::vector<Figure> figures;
  const Measurements& measured = result.tasks.front().contest.at_time;
  for (const Contender& model : Attending(measured.models())) {
    const std::string& scheme = model.position;
    if (scheme == "sinusoidal" || scheme == "alibi" || !HasPicture(scheme)) continue;
    PositionsOptions drawn;
    drawn.scheme = scheme;
    drawn.seed = options.seed;
    FitToModel(drawn, options.width, options.heads, options.context);
    const std::vector<Figure> all = PositionFigures(drawn, LearntTableOf(measured.Of(model, 0).more));
    figures.push_back(all.front());
    figures.push_back(all.back());
  }
  return figures;
}

}  // namespace

nlohmann::ordered_json LearntTable(LanguageModel& model) {
  const std::optional<SchemeTable> table = TrainedTable(model, 0);
  if (!table) return nullptr;
  return {{"scheme", table->scheme}, {"rows", table->rows}, {"columns", table->columns}, {"values", table->values}};
}

std::optional<SchemeTable> LearntTableOf(const nlohmann::ordered_json& json) {
  if (json.is_null()) return std::nullopt;
  SchemeTable table{json.at("scheme").get<std::string>(), json.at("rows").get<int64_t>(), json.at("columns").get<int64_t>(),
                    json.at("values").get<std::vector<double>>(), /*trained=*/true};
  const auto size = static_cast<int64_t>(table.values.size());
  if (table.rows < 1 || table.columns < 1 || size % table.rows != 0 || size / table.rows != table.columns) {
    throw InvalidArgument("table: incomplete");
  }
  return table;
}

PageLink WriteEncoding(const StudyResult& result, const std::filesystem::path& folder, const std::filesystem::path& link) {
  const RotationCheck check = CheckRotation(PositionsOptions());
  const StudyOptions& options = result.options;
  Page page("Positions by themselves", folder / link.parent_path(), result.command, SeedsOf(options.seed, options.seeds));
  page.Section("The encoding of the book");
  TellEncoding(check, page);
  if (const std::vector<Figure> figures = LearntFigures(result); !figures.empty()) {
    page.Section("What the positional encodings learnt");
    page.Say("What a scheme says of a distance, as the run of the first seed has learnt it.");
    for (const Figure& figure : figures) page.Show(figure);
  }
  page.KeepJson("positions.json", {{"rotation", RotationJson(check)}});
  page.Write();
  return {"Positions by themselves", link, EncodingFinding(check, {})};
}

}  // namespace heed::lab
