// What tasks showed, as tables to read, as files to compute with and as a page.
#ifndef HEED_LAB_TASKS_OUTPUT_H_
#define HEED_LAB_TASKS_OUTPUT_H_

#include <filesystem>

#include <nlohmann/json.hpp>

#include "lab/report/page.h"
#include "lab/tasks/tasks.h"

namespace heed::lab {

// The scores of every model at every length, the best at the training length first; "n/a" beyond the reach of a model.
Table TaskTable(const TaskResult& task, const TaskOptions& options);

// One curve a model: its score over the length.
Figure TaskFigure(const TaskResult& task, const TaskOptions& options);

// Settings, findings, and by task every score with its spread and every run; null beyond the reach of a model.
nlohmann::ordered_json TasksJson(const TasksResult& result);

// Adds findings, figures and tables to the section that the page has begun, and keeps tasks.csv and tasks.json beside it.
void TellTasks(const TasksResult& result, Page& page);
// A page of its own, whose path it returns; its figures name the command of the options.
std::filesystem::path WriteTasks(const TasksResult& result, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_LAB_TASKS_OUTPUT_H_
