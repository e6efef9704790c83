// What tasks showed, as tables to read, as files to compute with and as a part of a report.
#ifndef HEED_LAB_TASKS_OUTPUT_H_
#define HEED_LAB_TASKS_OUTPUT_H_

#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "lab/report/html.h"
#include "lab/tasks/tasks.h"

namespace heed::lab {

// The scores of every model at every length, the best at the training length first; "n/a" beyond the reach of a model.
Table TaskTable(const TaskResult& task, const TasksResult& result);

// One curve a model: its score over the length. `command` is the one that made it.
Figure TaskFigure(const TaskResult& task, const TasksResult& result, const std::string& command);

// One line a task, model, seed and length.
std::string TasksCsv(const TasksResult& result);

// Settings, findings, every score with its spread and every run; null beyond the reach of a model.
nlohmann::ordered_json TasksJson(const TasksResult& result);

// Writes tasks.csv and the figures to the directory, and adds paragraphs, tables and figures to the report. FileError.
void AddTasks(const TasksResult& result, const std::string& command, const std::filesystem::path& directory, Report& report);

}  // namespace heed::lab

#endif  // HEED_LAB_TASKS_OUTPUT_H_
