#include "book/tasks/output.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lab/report/page.h"
#include "lab/runs/contest_page.h"

namespace heed::lab {

using Json = nlohmann::ordered_json;

Table TaskTable(const TaskResult& task, const TaskOptions& options) {
  const TaskFacts& facts = task.task->facts();
  std::vector<Heading> headings;
  headings.reserve(options.lengths.size());
  for (const int64_t length : options.lengths) {
    headings.push_back({fmt::format("{} steps{}", length, length == options.length ? " (training)" : ""), task.At(length)});
  }
  return ScoreTable(fmt::format("{}: {}, {}", facts.name, facts.measure().label, SpreadInWords(options.seeds)), task.scores,
                    task.scores.Ranked(task.At(options.length)), headings);
}

Figure TaskFigure(const TaskResult& task, const TaskOptions& options) {
  const TaskFacts& facts = task.task->facts();
  const Measure& measure = facts.measure();
  LinePlot plot{"Steps", Sentence(measure.label), /*log_x=*/true, /*log_y=*/!measure.more_is_better, {}};
  for (const SizedContender& model : task.scores.models()) {
    plot.series.push_back(Curve(task.scores, model, measure.name, model.Label()));
  }
  return {.name = "task-" + facts.id,
          .title = fmt::format("{}: {} over the length", facts.name, measure.label),
          .caption = fmt::format("Trained at {} steps. Chance is {:.3g}. {}", options.length, facts.chance,
                                 SpreadNote(options.seeds, "The band reaches")),
          .command = {},
          .content = std::move(plot),
          .height = 440};
}

Json TasksJson(const TasksResult& result) {
  TaskOptions options = result.options;
  Json settings = {{"budget", options.budget}};
  settings.update(SettingsOf(FieldsOf(options)));
  settings["runs_side_by_side"] = options.threads;
  Json json = {{"settings", std::move(settings)},
               {"environment", ToJson(result.environment)},
               {"findings", TasksFindings(result)},
               {"tasks", Json::array()}};
  for (const TaskResult& task : result.tasks) {
    const TaskFacts& facts = task.task->facts();
    json["tasks"].push_back({{"task", facts.id},
                             {"name", facts.name},
                             {"definition", facts.definition},
                             {"measure", facts.measure().name},
                             {"chance", facts.chance},
                             {"solved", facts.solved},
                             {"layers", options.LayersFor(*task.task)},
                             {"finding", TaskFinding(task, options)},
                             {"models", task.scores.Json()}});
  }
  return json;
}

namespace {

void TellTasks(const TasksResult& result, Page& page) {
  for (const std::string& finding : TasksFindings(result)) page.Say(finding);
  std::vector<const Measurements*> scores;
  scores.reserve(result.tasks.size());
  for (const TaskResult& task : result.tasks) {
    const TaskFacts& facts = task.task->facts();
    page.Say(facts.name + ". " + facts.definition + " " + TaskFinding(task, result.options));
    page.Show(TaskFigure(task, result.options));
    page.Show(TaskTable(task, result.options));
    scores.push_back(&task.scores);
  }
  page.Keep("tasks.csv", MeasurementsCsv("task", "steps", scores));
  page.KeepJson("tasks.json", TasksJson(result));
}

}  // namespace

std::filesystem::path WriteTasks(const TasksResult& result, const std::filesystem::path& folder) {
  const TaskOptions& options = result.options;
  Page page("Tasks that separate encoders", folder, CommandOf(options, folder), SeedsOf(options.seed, options.seeds));
  TellTasks(result, page);
  return page.Write();
}

}  // namespace heed::lab
