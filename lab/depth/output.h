// Measurements of deep stacks as tables to read, as files to compute with and as a part of a report.
#ifndef HEED_LAB_DEPTH_OUTPUT_H_
#define HEED_LAB_DEPTH_OUTPUT_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/depth/depth.h"
#include "lab/report/html.h"

namespace heed::lab {

// The variants; every stack as it starts, behind chosen layers; every trained stack.
std::vector<Table> DepthTables(const DepthResult& result);

// One line a stack and layer, and one a stack, layer and head. Numbers that are not finite are written nan.
std::string DepthCsv(const DepthResult& result);
std::string DepthHeadsCsv(const DepthResult& result);
// Every number; null where one is not finite.
nlohmann::ordered_json DepthJson(const DepthResult& result);

// Writes depth.csv, depth-heads.csv, depth.json and the figures, which say that the command made them, to the directory and
// adds findings, figures and tables to the report. Throws FileError.
void AddDepth(const DepthResult& result, const std::string& command, const std::filesystem::path& directory, Report& report);

}  // namespace heed::lab

#endif  // HEED_LAB_DEPTH_OUTPUT_H_
