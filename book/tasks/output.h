// What tasks showed, as tables to read, as files to compute with and as a page.
#ifndef HEED_BOOK_TASKS_OUTPUT_H_
#define HEED_BOOK_TASKS_OUTPUT_H_

#include <filesystem>

#include <nlohmann/json.hpp>

#include "book/tasks/tasks.h"
#include "lab/report/figure.h"
#include "lab/report/page.h"

namespace heed::lab {

// The scores of every model at every length, the best at the training length first; "n/a" beyond the reach of a model.
Table TaskTable(const TaskResult& task, const TaskOptions& options);

// One curve a model: its score over the length.
Figure TaskFigure(const TaskResult& task, const TaskOptions& options);

// Settings, findings, and by task every score with its spread and every run; null beyond the reach of a model.
nlohmann::ordered_json TasksJson(const TasksResult& result);

// Findings, figures and tables as a page, whose path it returns, with tasks.csv and tasks.json beside it; its figures name the
// command of the options. FileError.
std::filesystem::path WriteTasks(const TasksResult& result, const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BOOK_TASKS_OUTPUT_H_
