#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lab/report/csv_text.h"
#include "lab/report/file.h"
#include "lab/report/html.h"
#include "lab/report/json.h"
#include "lab/series/findings.h"
#include "lab/series/series.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

std::string MeasureName(const SeriesResult& result) {
  return result.Classifies() ? "Loss (nats per answer)" : "Mean squared error";
}

std::string LossCell(const SeriesResult& result, const Spread& spread) {
  if (result.Classifies()) return Cell(spread, 3);
  if (spread.low == spread.high) return fmt::format("{:.4g}", spread.mean);
  return fmt::format("{:.4g} ({:.4g}–{:.4g})", spread.mean, spread.low, spread.high);
}

Table ScoreTable(const SeriesResult& result) {
  const bool classes = result.Classifies();
  Table table{
      fmt::format(
          "On the validation part, {}; parameters are as near to equal as the feed-forward sublayers' widths make them",
          result.options.seeds == 1 ? "one seed" : fmt::format("mean (least–greatest) of {} seeds", result.options.seeds)),
      {"Model", "Parameters", MeasureName(result)},
      {}};
  if (classes) table.header.push_back("Accuracy");
  for (const SeriesModelResult* model : Ranked(result.models)) {
    table.rows.push_back({model->model.Label(), std::to_string(model->model.parameters), LossCell(result, model->Loss())});
    if (classes) table.rows.back().push_back(Cell(model->Accuracy(), 3));
  }
  const double loss = result.baseline.loss;
  table.rows.push_back({result.baseline.name + " (no model)", "0", LossCell(result, {loss, loss, loss})});
  if (classes) table.rows.back().push_back(fmt::format("{:.3f}", result.baseline.accuracy));
  return table;
}

Figure Bars(const SeriesResult& result, bool accuracy, const std::string& command) {
  BarChart chart{accuracy ? "Accuracy" : MeasureName(result), {}, {}, {}, {}};
  const auto add = [&chart](const std::string& name, const Spread& spread) {
    chart.names.push_back(name);
    chart.values.push_back(spread.mean);
    chart.low.push_back(spread.low);
    chart.high.push_back(spread.high);
  };
  for (const SeriesModelResult* model : Ranked(result.models)) {
    add(model->model.Label(), accuracy ? model->Accuracy() : model->Loss());
  }
  const double base = accuracy ? result.baseline.accuracy : result.baseline.loss;
  add(result.baseline.name, {base, base, base});
  const int height = std::max(200, 110 + 26 * static_cast<int>(chart.names.size()));
  return {
      .name = accuracy ? "accuracy" : "loss",
      .title = accuracy ? "Share of right answers" : MeasureName(result) + " on the validation part",
      .caption = fmt::format("{} is better. The last bar needs no model. {}", accuracy ? "Longer" : "Shorter",
                             result.options.seeds == 1
                                 ? "One seed."
                                 : fmt::format("The mark at a bar's end reaches from the least to the greatest of {} seeds.",
                                               result.options.seeds)),
      .command = command,
      .seeds = SeedsOf(result.options.seed, result.options.seeds),
      .content = std::move(chart),
      .width = 680,
      .height = height};
}

std::string AboutData(const SeriesResult& result) {
  const SeriesSummary& data = result.data;
  std::string text = fmt::format(
      "{}: {} sequence{} of {} steps, {} in all, with {} feature{} ({}). ", data.name, data.sequences,
      data.sequences == 1 ? "" : "s",
      data.shortest == data.longest ? fmt::format("{}", data.longest) : fmt::format("{} to {}", data.shortest, data.longest),
      data.steps, data.features.size(), data.features.size() == 1 ? "" : "s", Join(data.features));
  if (data.goal == SeriesGoal::kForecast) {
    return text + fmt::format(
                      "Foretold: the next {} of {} after windows of {} steps, as the change from the last value. The first "
                      "part of each sequence trains ({} windows), the end validates ({} windows).",
                      result.options.horizon == 1 ? "value" : fmt::format("{} values", result.options.horizon), data.target,
                      result.options.context, data.training, data.validation);
  }
  text += fmt::format("Asked for: {}, {} of {}. ", data.target, result.Classifies() ? "a class" : "a number",
                      data.each_step ? "every step" : "the whole sequence");
  if (!data.classes.empty()) text += fmt::format("{} classes: {}. ", data.classes.size(), Join(data.classes));
  return text + fmt::format("{} sequences train and {} validate, drawn with a fixed seed.", data.training, data.validation);
}

std::string AboutModels(const SeriesResult& result) {
  const SeriesOptions& options = result.options;
  std::string text = fmt::format(
      "Every model is the same but for what mixes the steps: a linear layer for the features, {} of "
      "width {}, and a head{}. Features are standardised by the training part alone. {} training "
      "steps of {} {}.",
      options.layers == 1 ? "one layer" : fmt::format("{} layers", options.layers), options.width,
      result.data.each_step ? " at every step" : " on the mean over the steps", options.steps, options.batch,
      result.data.goal == SeriesGoal::kForecast ? "windows" : "sequences");
  if (result.data.has_times) {
    text +=
        " Steps stand at their times, in units of the median difference: sinusoidal encodings, rotations and ALiBi's distances "
        "are those of the times; the other schemes number the steps. All models are given the time since the step before as "
        "a feature.";
  }
  return text;
}

std::string RunsCsv(const SeriesResult& result) {
  CsvText csv;
  csv.Row("model", "encoder", "position", "ffn_width", "parameters", "seed", "loss", "accuracy", "training_loss",
          "step_seconds");
  for (const SeriesModelResult& entry : result.models) {
    const SeriesModel& model = entry.model;
    for (const SeriesRun& run : entry.runs) {
      csv.Row(model.Id(), model.encoder, model.position, model.ffn_width, model.parameters, run.seed, run.loss,
              result.Classifies() ? FormatNumber(run.accuracy) : "n/a", run.training, run.step_seconds);
    }
  }
  return csv.text();
}

Table SettingsTable(const SeriesResult& result) {
  const SeriesOptions& options = result.options;
  const TrainOptions training = TrainingOf(options, options.seed);
  return {"Every number of this page is in study.json, the runs one by one in runs.csv",
          {"Setting", "Value"},
          {{"data", result.data.name + ", fingerprint " + result.data.fingerprint},
           {"budget", options.budget},
           {"runs of a model", SeedsOf(options.seed, options.seeds)},
           {"layers, heads, width", fmt::format("{}, {}, {}", options.layers, options.heads, options.width)},
           {"validation", fmt::format("{:g} of the data", options.validation)},
           {"optimiser", fmt::format("AdamW, learning rate {:g} to {:g}, weight decay {:g}", training.lr, training.min_lr,
                                     training.weight_decay)},
           {"processor", result.environment.cpu},
           {"versions", fmt::format("heed {}, LibTorch {}", result.environment.version, result.environment.libtorch)}}};
}

}  // namespace

Json SeriesJson(const SeriesResult& result) {
  const SeriesSummary& data = result.data;
  SeriesOptions options = result.options;
  Json settings = {{"budget", options.budget}};
  settings.update(SettingsOf(FieldsOf(options)));
  Json json = {{"data",
                {{"name", data.name},
                 {"fingerprint", data.fingerprint},
                 {"goal", ToString(data.goal)},
                 {"target", data.target},
                 {"features", data.features},
                 {"classes", data.classes},
                 {"times", data.has_times},
                 {"each_step", data.each_step},
                 {"sequences", data.sequences},
                 {"steps", data.steps},
                 {"training", data.training},
                 {"validation", data.validation}}},
               {"settings", std::move(settings)},
               {"environment", ToJson(result.environment)},
               {"conclusion", Json::array()},
               {"baseline", {{"name", result.baseline.name}, {"loss", result.baseline.loss}}},
               {"models", Json::array()}};
  if (result.Classifies()) json["baseline"]["accuracy"] = result.baseline.accuracy;
  for (const SeriesAnswer& answer : SeriesConclusion(result)) {
    json["conclusion"].push_back({{"question", answer.question}, {"answer", answer.answer}});
  }
  for (const SeriesModelResult& entry : result.models) {
    Json model = {
        {"model", entry.model.Id()},          {"encoder", entry.model.encoder},       {"position", entry.model.position},
        {"ffn_width", entry.model.ffn_width}, {"parameters", entry.model.parameters}, {"loss", ToJson(entry.Loss())}};
    if (result.Classifies()) model["accuracy"] = ToJson(entry.Accuracy());
    model["runs"] = Json::array();
    for (const SeriesRun& run : entry.runs) model["runs"].push_back(ToJson(run));
    json["models"].push_back(std::move(model));
  }
  return json;
}

void WriteSeries(const SeriesResult& result, const std::string& command, const std::filesystem::path& folder) {
  Report report("Which encoder, which notion of order?");
  report.Section("Conclusion");
  report.Paragraph("A study of " + result.data.name + ".");
  for (const SeriesAnswer& answer : SeriesConclusion(result)) report.Paragraph(answer.question + " " + answer.answer);
  report.Section("Models");
  const Figure loss = Bars(result, /*accuracy=*/false, command);
  report.Add(loss, WriteFigure(loss, folder));
  if (result.Classifies()) {
    const Figure accuracy = Bars(result, /*accuracy=*/true, command);
    report.Add(accuracy, WriteFigure(accuracy, folder));
  }
  report.Add(ScoreTable(result));
  report.Section("The data and the models");
  report.Paragraph(AboutData(result));
  report.Paragraph(AboutModels(result));
  report.Section("Settings");
  report.Add(SettingsTable(result));
  WriteFile(folder / "runs.csv", RunsCsv(result));
  // A file name need not be UTF-8; what is not shows as a replacement character.
  WriteFile(folder / "study.json", JsonText(SeriesJson(result), 1) + "\n");
  report.Write(folder / "report.html");
}

}  // namespace heed::lab
