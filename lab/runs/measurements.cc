#include "lab/runs/measurements.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "heed/error.h"
#include "lab/report/figure.h"

namespace heed::lab {
namespace {

// Puts the value of a column in its place: under the measure's name, or under the place there.
void Place(const Column& column, nlohmann::ordered_json value, nlohmann::ordered_json& json) {
  nlohmann::ordered_json& measure = json[column.measure.name];
  if (column.at == 0) {
    measure = std::move(value);
  } else {
    measure[std::to_string(column.at)] = std::move(value);
  }
}

}  // namespace

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> MeanOf(const std::vector<std::vector<double>>& rows) {
  std::vector<double> mean(rows.front().size(), 0.0);
  for (const std::vector<double>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) mean[i] += row[i] / static_cast<double>(rows.size());
  }
  return mean;
}

Spread SpreadOf(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {MeanOf(values), *low, *high};
}

nlohmann::ordered_json ToJson(const Spread& spread) {
  return {{"mean", spread.mean}, {"low", spread.low}, {"high", spread.high}};
}

std::string SeedsOf(uint64_t first, int64_t count) {
  if (count == 1) return fmt::format("seed {}", first);
  return fmt::format("seeds {} to {}", first, first + static_cast<uint64_t>(count) - 1);
}

std::string Measure::Text(double value) const {
  return significant ? fmt::format("{:.{}g}", value / unit, digits) : fmt::format("{:.{}f}", value / unit, digits);
}

std::string Measure::Text(const Spread& spread) const {
  const std::string low = Text(spread.low), high = Text(spread.high);
  return low == high ? Text(spread.mean) : fmt::format("{} ({} to {})", Text(spread.mean), low, high);
}

std::string Measure::Cell(const Spread& spread) const {
  const std::string low = Text(spread.low), high = Text(spread.high);
  return low == high ? Text(spread.mean) : fmt::format("{} ({}–{})", Text(spread.mean), low, high);
}

std::string Measure::Phrase(const Spread& spread) const { return fmt::format(fmt::runtime(phrase), Text(spread)); }

nlohmann::ordered_json ToJson(const Outcome& outcome) {
  nlohmann::ordered_json longer = nlohmann::ordered_json::object(), curve = nlohmann::ordered_json::array();
  for (const auto& [length, losses] : outcome.longer) longer[std::to_string(length)] = losses;
  for (const CurvePoint& point : outcome.curve) curve.push_back({point.steps, point.training, point.validation});
  return {{"values", outcome.values},     {"blocks", outcome.blocks},  {"validation", outcome.validation},
          {"longer", std::move(longer)},  {"curve", std::move(curve)}, {"best_steps", outcome.best_steps},
          {"diverged", outcome.diverged}, {"more", outcome.more}};
}

Outcome OutcomeFromJson(const nlohmann::ordered_json& json) {
  Outcome outcome;
  const auto number = [](const nlohmann::ordered_json& value) { return value.is_null() ? NAN : value.get<double>(); };
  std::ranges::transform(json.at("values"), std::back_inserter(outcome.values), number);
  json.at("blocks").get_to(outcome.blocks), json.at("validation").get_to(outcome.validation);
  for (const nlohmann::ordered_json& point : json.at("curve"))
    outcome.curve.push_back({point.at(0).get<int64_t>(), number(point.at(1)), number(point.at(2))});
  json.at("best_steps").get_to(outcome.best_steps);
  for (const auto& [length, losses] : json.at("longer").items())
    outcome.longer[std::stoll(length)] = losses.get<std::vector<double>>();
  outcome.diverged = json.at("diverged").get<std::string>();
  outcome.more = json.at("more");
  return outcome;
}

Measurements::Measurements(std::string part, std::vector<Column> columns, Models models, uint64_t first_seed, int64_t seeds)
    : part_(std::move(part)),
      columns_(std::move(columns)),
      models_(std::move(models)),
      first_seed_(first_seed),
      seeds_(seeds),
      outcomes_(models_.size()) {}

void Measurements::Put(std::size_t model, std::size_t seed, Outcome outcome) {
  if (outcome.values.size() != columns_.size()) {
    throw InvalidArgument(fmt::format("measurements: {} values for {} columns", outcome.values.size(), columns_.size()));
  }
  std::vector<Outcome>& runs = outcomes_.at(model);
  if (runs.size() <= seed) runs.resize(seed + 1, Outcome{.values = std::vector<double>(columns_.size(), NAN)});
  runs[seed] = std::move(outcome);
}

const Column& Measurements::ColumnOf(const std::string& measure) const {
  const auto found = std::ranges::find_if(columns_, [&](const Column& column) { return column.measure.name == measure; });
  if (found == columns_.end()) throw InvalidArgument("measurements: no column '" + measure + "'");
  return *found;
}

std::vector<Column> Measurements::ColumnsOf(const std::string& measure) const {
  std::vector<Column> columns;
  std::ranges::copy_if(columns_, std::back_inserter(columns),
                       [&](const Column& column) { return column.measure.name == measure; });
  return columns;
}

std::size_t Measurements::IndexOf(const Contender& model) const {
  const auto found = std::ranges::find(models_, model.Id(), &SizedContender::Id);
  if (found == models_.end()) throw InvalidArgument("measurements: no model '" + model.Id() + "'");
  return static_cast<std::size_t>(found - models_.begin());
}

int64_t Measurements::RunsOf(const Contender& model) const { return std::ssize(outcomes_[IndexOf(model)]); }

std::vector<double> Measurements::Values(const Contender& model, const Column& column) const {
  const auto c = static_cast<std::size_t>(std::ranges::find(columns_, column) - columns_.begin());
  if (c == columns_.size()) throw InvalidArgument("measurements: no column '" + column.measure.name + "'");
  std::vector<double> values;
  for (const Outcome& run : outcomes_[IndexOf(model)]) values.push_back(run.values[c]);
  return values;
}

bool Measurements::Reaches(const Contender& model, const Column& column) const {
  const std::vector<double> values = Values(model, column);
  bool reaches = false;
  for (std::size_t s = 0; s < values.size(); ++s) {
    if (!std::isfinite(values[s]) && Of(model, s).diverged.empty()) return false;
    reaches = reaches || std::isfinite(values[s]);
  }
  return reaches;
}

Spread Measurements::Over(const Contender& model, const Column& column) const {
  std::vector<double> values = Values(model, column);
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  return SpreadOf(values);
}

const Outcome& Measurements::Of(const Contender& model, std::size_t seed) const {
  static const Outcome none;
  const std::vector<Outcome>& runs = outcomes_[IndexOf(model)];
  return seed < runs.size() ? runs[seed] : none;
}

std::vector<std::vector<double>> Measurements::BlockLosses(const Contender& model, int64_t longer) const {
  std::vector<std::vector<double>> losses;
  for (const Outcome& outcome : outcomes_[IndexOf(model)]) {
    const auto at_length = outcome.longer.find(longer);
    const std::vector<double>* blocks = longer == 0 ? &outcome.blocks : nullptr;
    if (at_length != outcome.longer.end()) blocks = &at_length->second;
    if (blocks != nullptr && !blocks->empty()) losses.push_back(*blocks);
  }
  return losses;
}

Models Measurements::Ranked(const Column& column, const Models& among) const {
  Models ranked;
  std::ranges::copy_if(among, std::back_inserter(ranked), [&](const Contender& model) { return Reaches(model, column); });
  std::ranges::stable_sort(ranked, [&](const Contender& a, const Contender& b) {
    return column.measure.Better(Over(a, column).mean, Over(b, column).mean);
  });
  return ranked;
}

nlohmann::ordered_json Measurements::Json() const {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  for (const SizedContender& model : models_) {
    nlohmann::ordered_json json = {{"model", model.Id()},
                                   {"encoder", model.encoder},
                                   {"position", model.position},
                                   {"ffn_width", model.ffn_width},
                                   {"parameters", model.parameters}};
    nlohmann::ordered_json runs = nlohmann::ordered_json::array();
    for (int64_t s = 0; s < RunsOf(model); ++s) runs.push_back({{"seed", first_seed_ + static_cast<uint64_t>(s)}});
    for (const Column& column : columns_) {
      Place(column, Reaches(model, column) ? ToJson(Over(model, column)) : nlohmann::ordered_json(nullptr), json);
      const std::vector<double> values = Values(model, column);
      for (std::size_t s = 0; s < values.size(); ++s) Place(column, values[s], runs[s]);
    }
    json["runs"] = std::move(runs);
    models.push_back(std::move(json));
  }
  return models;
}

Models Attending(const Models& models) {
  Models attending;
  std::ranges::copy_if(models, std::back_inserter(attending), [](const Contender& model) { return model.attends(); });
  return attending;
}

std::string MeasurementsCsv(const std::string& parts, const std::string& places, const std::vector<const Measurements*>& all) {
  CsvText csv;
  // Without the column of the parts, or of the places, where they have no name.
  const auto line = [&](std::vector<std::string> cells) {
    if (places.empty()) cells.erase(cells.end() - 2);
    if (parts.empty()) cells.erase(cells.begin());
    return cells;
  };
  csv.Line(line({parts, "model", "encoder", "position", "ffn_width", "parameters", "seed", "measure", places, "value"}));
  for (const Measurements* measured : all) {
    for (const SizedContender& model : measured->models()) {
      for (const Column& column : measured->columns()) {
        uint64_t seed = measured->first_seed();
        for (const double value : measured->Values(model, column)) {
          csv.Line(line({measured->part(), model.Id(), model.encoder, model.position, std::to_string(model.ffn_width),
                         std::to_string(model.parameters), std::to_string(seed++), column.measure.name,
                         column.at == 0 ? "" : std::to_string(column.at), std::isfinite(value) ? FormatNumber(value) : "n/a"}));
        }
      }
    }
  }
  return csv.text();
}

}  // namespace heed::lab
