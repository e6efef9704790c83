// What tasks showed, as sentences and tables to read, as files to compute with and as a page.
#ifndef HEED_BOOK_TASKS_OUTPUT_H_
#define HEED_BOOK_TASKS_OUTPUT_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/tasks/tasks.h"
#include "lab/report/figure.h"
#include "lab/report/page.h"

namespace heed::lab {

// Which models solve a task at the training length, with every seed; which do no better than chance; which are still right at
// the longest length.
std::string TaskFinding(const TaskResult& task, const TaskOptions& options);

// Where the best recurrence, convolution and other encoders beat the best attention at a length of the options, and where they
// lose: where their spreads over the seeds do not touch. Empty without attention or without another encoder.
std::string FamilyFinding(const TasksResult& result, int64_t length);

// What attention makes of a task without positions and with its best scheme, over all tasks where that matters. Empty unless
// attention without positions and with a scheme were run.
std::string SchemeFinding(const TasksResult& result);

// How many seeds and learning rates that rests on.
std::string CertaintyFinding(const TasksResult& result);

// Families at the training length and at the longest, then schemes, without those that are empty; then what they rest on.
std::vector<std::string> TasksFindings(const TasksResult& result);

// Families and schemes at the training length, as one paragraph.
std::string TasksConclusion(const TasksResult& result);

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
