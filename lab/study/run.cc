#include "lab/study/run.h"

#include <optional>

#include "heed/error.h"
#include "lab/positions/scheme_table.h"
#include "lab/training/short_run.h"

namespace heed::lab {
namespace {

nlohmann::ordered_json ToJson(const SchemeTable& table) {
  return {{"scheme", table.scheme}, {"rows", table.rows}, {"columns", table.columns}, {"values", table.values}};
}

}  // namespace

std::vector<Column> StudyColumns(const StudyOptions& options, Objective objective) {
  const Measure loss = {
      .name = "loss", .label = "Loss on validation text (nats per character)", .phrase = "{} nats per character"};
  const Measure speed = {.name = "tokens_per_second",
                         .label = "Thousand characters per second",
                         .digits = 1,
                         .more_is_better = true,
                         .unit = 1000};
  const Measure training = {.name = "training_loss", .label = "Training loss (nats per character)"};
  std::vector<Column> columns;
  for (const int64_t multiple : kLengthMultiples)
    columns.push_back({loss, multiple * options.context, /*optional=*/multiple > 1});
  columns.push_back({speed});
  for (const int64_t step : CurveSteps(options.steps(objective))) columns.push_back({training, step});
  return columns;
}

Outcome TrainAndEvaluate(const Corpus& corpus, const TrainOptions& options, const std::function<void()>& on_step) {
  std::vector<int64_t> lengths;
  for (const int64_t multiple : kLengthMultiples) lengths.push_back(multiple * options.model.context);
  ShortRun run = TrainShortly(corpus, options, lengths, on_step);
  Outcome outcome{run.losses};
  outcome.values.push_back(run.tokens_per_second);
  outcome.values.insert(outcome.values.end(), run.curve.begin(), run.curve.end());
  if (const std::optional<SchemeTable> table = TrainedTable(run.model, 0)) outcome.more = ToJson(*table);
  return outcome;
}

std::optional<SchemeTable> TableOf(const nlohmann::ordered_json& more) {
  if (more.is_null()) return std::nullopt;
  SchemeTable table{more.at("scheme").get<std::string>(), more.at("rows").get<int64_t>(), more.at("columns").get<int64_t>(),
                    more.at("values").get<std::vector<double>>(), /*trained=*/true};
  const auto size = static_cast<int64_t>(table.values.size());
  if (table.rows < 1 || table.columns < 1 || size % table.rows != 0 || size / table.rows != table.columns) {
    throw InvalidArgument("table: it is not whole");
  }
  return table;
}

}  // namespace heed::lab
