#include "bench/study/record.h"

#include <cmath>
#include <sstream>
#include <utility>

#include "lab/report/file.h"
#include "lab/report/json.h"

namespace heed::bench {
namespace {

using Json = nlohmann::ordered_json;

// Losses to five digits: far below what another seed changes.
double Short(double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const double unit = std::pow(10, 4 - std::floor(std::log10(std::abs(value))));
  return std::round(value * unit) / unit;
}

Json Short(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(Short(value));
  return json;
}

std::vector<double> Numbers(const Json& json) {
  std::vector<double> numbers;
  numbers.reserve(json.size());
  for (const Json& value : json) numbers.push_back(value.is_null() ? NAN : value.get<double>());
  return numbers;
}

RecordedRun RunFrom(const Json& json) {
  RecordedRun run{.model = json.at("model"), .rate = json.at("rate"), .seed = json.at("seed"), .diverged = json.at("diverged")};
  for (const Json& point : json.at("curve")) {
    const std::vector<double> numbers = Numbers(point);
    run.curve.push_back({point.at(0).get<int64_t>(), numbers.at(1), numbers.at(2)});
  }
  for (const auto& [steps, best] : json.at("best").items())
    run.best[std::stoll(steps)] = {Numbers(best.at("validation")), Numbers(best.at("blocks")), Numbers(best.at("values"))};
  return run;
}

std::string HeadOf(const Record& record) {
  Json models = Json::array(), baselines = Json::array(), columns = Json::array();
  for (const RecordedModel& one : record.models) {
    models.push_back({{"encoder", one.model.encoder},
                      {"position", one.model.position},
                      {"ffn_width", one.model.ffn_width},
                      {"parameters", one.model.parameters},
                      {"step_seconds", one.step_seconds},
                      {"steps", one.steps}});
  }
  for (const lab::Baseline& baseline : record.baselines)
    baselines.push_back({{"name", baseline.name},
                         {"loss", baseline.loss},
                         {"validation_loss", baseline.validation},
                         {"blocks", Short(baseline.blocks)}});
  for (const lab::Column& column : record.columns) {
    columns.push_back({{"name", column.measure.name}, {"at", column.at}});
  }
  return lab::JsonText({{"name", record.name},
                        {"id", record.id},
                        {"times", record.times},
                        {"seconds", record.seconds},
                        {"simple_loss", record.simple_loss},
                        {"rates", record.rates},
                        {"weights", record.weights},
                        {"validation_weights", record.validation_weights},
                        {"columns", std::move(columns)},
                        {"models", std::move(models)},
                        {"baselines", std::move(baselines)}});
}

std::string LineOf(const RecordedRun& run) {
  Json curve = Json::array(), best = Json::object();
  for (const lab::CurvePoint& point : run.curve) curve.push_back({point.steps, Short(point.training), Short(point.validation)});
  for (const auto& [steps, state] : run.best) {
    best[std::to_string(steps)] = {
        {"validation", Short(state.validation)}, {"blocks", Short(state.blocks)}, {"values", Short(state.values)}};
  }
  return lab::JsonText({{"model", run.model},
                        {"rate", run.rate},
                        {"seed", run.seed},
                        {"diverged", run.diverged},
                        {"curve", std::move(curve)},
                        {"best", std::move(best)}});
}

}  // namespace

std::string Text(const Record& record) {
  std::string text = HeadOf(record) + '\n';
  for (const RecordedRun& run : record.runs) text += LineOf(run) + '\n';
  return text;
}

Record ReadRecord(const std::filesystem::path& path) {
  std::istringstream lines(lab::ReadFile(path));
  std::string line;
  std::getline(lines, line);
  const Json json = Json::parse(line);
  Record record{.name = json.at("name"),
                .id = json.at("id"),
                .times = json.at("times"),
                .seconds = json.at("seconds"),
                .simple_loss = json.at("simple_loss"),
                .rates = Numbers(json.at("rates")),
                .weights = Numbers(json.at("weights")),
                .validation_weights = Numbers(json.at("validation_weights"))};
  for (const Json& json_column : json.at("columns")) {
    lab::Column& column = record.columns.emplace_back();
    column.measure.name = json_column.at("name"), column.at = json_column.at("at");
  }
  for (const Json& one : json.at("models")) {
    lab::SizedContender model;
    model.encoder = one.at("encoder"), model.position = one.at("position");
    model.ffn_width = one.at("ffn_width"), model.parameters = one.at("parameters");
    record.models.push_back({model, one.at("step_seconds"), one.at("steps")});
  }
  for (const Json& one : json.at("baselines"))
    record.baselines.push_back({.name = one.at("name"),
                                .blocks = Numbers(one.at("blocks")),
                                .loss = one.at("loss"),
                                .validation = one.at("validation_loss")});
  while (std::getline(lines, line)) {
    if (!line.empty()) record.runs.push_back(RunFrom(Json::parse(line)));
  }
  return record;
}

}  // namespace heed::bench
