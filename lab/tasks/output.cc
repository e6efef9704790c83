#include "lab/tasks/output.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lab/report/csv_text.h"
#include "lab/report/file.h"
#include "lab/tasks/findings.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

bool IsAccuracy(const SequenceTask& task) { return task.facts().measure == Measure::kAccuracy; }

std::string MeasureName(const SequenceTask& task) { return IsAccuracy(task) ? "accuracy" : "mean squared error"; }

std::string SpreadInWords(const TaskOptions& options) {
  return options.seeds == 1 ? "one seed" : fmt::format("mean (least–greatest) of {} seeds", options.seeds);
}

std::string ScoreCell(const SequenceTask& task, const Spread& spread) {
  if (IsAccuracy(task)) return Cell(spread, 2);
  if (spread.low == spread.high) return fmt::format("{:.2g}", spread.mean);
  return fmt::format("{:.2g} ({:.2g}–{:.2g})", spread.mean, spread.low, spread.high);
}

Json ModelJson(const TaskModelResult& model, const TaskOptions& options) {
  Json json = {{"model", model.model.Id()},
               {"encoder", model.model.encoder},
               {"position", model.model.position},
               {"ffn_width", model.model.ffn_width},
               {"parameters", model.model.parameters},
               {"scores", Json::object()},
               {"runs", Json::array()}};
  for (std::size_t i = 0; i < options.lengths.size(); ++i) {
    json["scores"][std::to_string(options.lengths[i])] = model.Reaches(i) ? ToJson(model.Score(i)) : Json(nullptr);
  }
  for (const TaskRun& run : model.runs) json["runs"].push_back(ToJson(run));
  return json;
}

void AddTask(const TaskResult& task, const TasksResult& result, const std::string& command,
             const std::filesystem::path& directory, Report& report) {
  const TaskFacts& facts = task.task->facts();
  report.Paragraph(facts.name + ". " + facts.definition + " " + TaskFinding(task, result));
  const Figure figure = TaskFigure(task, result, command);
  report.Add(figure, WriteFigure(figure, directory));
  report.Add(TaskTable(task, result));
}

}  // namespace

Table TaskTable(const TaskResult& task, const TasksResult& result) {
  const TaskOptions& options = result.options;
  Table table{fmt::format("{}: {}, {}", task.task->facts().name, MeasureName(*task.task), SpreadInWords(options)),
              {"Model", "Parameters"},
              {}};
  for (const int64_t length : options.lengths) {
    table.header.push_back(fmt::format("{} steps{}", length, length == options.length ? " (training)" : ""));
  }
  for (const TaskModelResult* model : Ranked(task, result.TrainingLength())) {
    std::vector<std::string> row = {model->model.Label(), std::to_string(model->model.parameters)};
    for (std::size_t i = 0; i < options.lengths.size(); ++i) {
      row.push_back(model->Reaches(i) ? ScoreCell(*task.task, model->Score(i)) : "n/a");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Figure TaskFigure(const TaskResult& task, const TasksResult& result, const std::string& command) {
  const TaskOptions& options = result.options;
  const TaskFacts& facts = task.task->facts();
  const bool accuracy = IsAccuracy(*task.task);
  LinePlot plot{"Steps", accuracy ? "Accuracy" : "Mean squared error", true, !accuracy, {}};
  for (const TaskModelResult& model : task.models) {
    Series series{.name = model.model.Label(), .x = {}, .y = {}, .low = {}, .high = {}};
    for (std::size_t i = 0; i < options.lengths.size(); ++i) {
      if (!model.Reaches(i)) continue;
      const Spread spread = model.Score(i);
      series.x.push_back(static_cast<double>(options.lengths[i]));
      series.y.push_back(spread.mean);
      series.low.push_back(spread.low);
      series.high.push_back(spread.high);
    }
    plot.series.push_back(std::move(series));
  }
  return {.name = "task-" + facts.id,
          .title = facts.name + ": " + MeasureName(*task.task) + " over the length",
          .caption = fmt::format(
              "Trained at {} steps. Chance is {:.3g}. {}", options.length, facts.chance,
              options.seeds == 1 ? "One seed."
                                 : fmt::format("The band reaches from the least to the greatest of {} seeds.", options.seeds)),
          .command = command,
          .seeds = SeedsOf(options.seed, options.seeds),
          .content = std::move(plot),
          .height = 440};
}

std::string TasksCsv(const TasksResult& result) {
  CsvText csv;
  csv.Row("task", "measure", "model", "encoder", "position", "ffn_width", "parameters", "seed", "trained_steps", "steps",
          "score");
  for (const TaskResult& task : result.tasks) {
    for (const TaskModelResult& entry : task.models) {
      const TaskModel& model = entry.model;
      for (const TaskRun& run : entry.runs) {
        for (std::size_t i = 0; i < result.options.lengths.size(); ++i) {
          csv.Row(task.task->facts().id, IsAccuracy(*task.task) ? "accuracy" : "squared_error", model.Id(), model.encoder,
                  model.position, model.ffn_width, model.parameters, run.seed, result.options.length, result.options.lengths[i],
                  entry.Reaches(i) ? FormatNumber(run.scores[i]) : "n/a");
        }
      }
    }
  }
  return csv.text();
}

Json TasksJson(const TasksResult& result) {
  TaskOptions options = result.options;
  Json settings = {{"budget", options.budget}};
  settings.update(SettingsOf(FieldsOf(options)));
  settings["runs_side_by_side"] = options.threads;
  Json json = {{"settings", std::move(settings)}, {"findings", Json::array()}, {"tasks", Json::array()}};
  for (const std::string& finding : {FamilyFinding(result, result.TrainingLength()),
                                     FamilyFinding(result, options.lengths.size() - 1), SchemeFinding(result)}) {
    if (!finding.empty()) json["findings"].push_back(finding);
  }
  for (const TaskResult& task : result.tasks) {
    const TaskFacts& facts = task.task->facts();
    Json models = Json::array();
    for (const TaskModelResult& model : task.models) models.push_back(ModelJson(model, options));
    json["tasks"].push_back({{"task", facts.id},
                             {"name", facts.name},
                             {"definition", facts.definition},
                             {"measure", IsAccuracy(*task.task) ? "accuracy" : "squared_error"},
                             {"chance", facts.chance},
                             {"solved", facts.solved},
                             {"layers", options.LayersFor(*task.task)},
                             {"finding", TaskFinding(task, result)},
                             {"models", std::move(models)}});
  }
  return json;
}

void AddTasks(const TasksResult& result, const std::string& command, const std::filesystem::path& directory, Report& report) {
  const std::size_t trained = result.TrainingLength(), longest = result.options.lengths.size() - 1;
  for (const std::string& finding :
       {FamilyFinding(result, trained), longest == trained ? std::string() : FamilyFinding(result, longest),
        SchemeFinding(result)}) {
    if (!finding.empty()) report.Paragraph(finding);
  }
  for (const TaskResult& task : result.tasks) AddTask(task, result, command, directory, report);
  WriteFile(directory / "tasks.csv", TasksCsv(result));
}

}  // namespace heed::lab
