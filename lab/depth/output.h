// Measurements of deep stacks as tables to read, as files to compute with and as a page.
#ifndef HEED_LAB_DEPTH_OUTPUT_H_
#define HEED_LAB_DEPTH_OUTPUT_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/depth/depth.h"
#include "lab/report/page.h"

namespace heed::lab {

// The variants; every stack as it starts, behind chosen layers; every trained stack.
std::vector<Table> DepthTables(const DepthResult& result);

// One line a stack and layer, and one a stack, layer and head. Numbers that are not finite are written nan.
std::string DepthCsv(const DepthResult& result);
std::string DepthHeadsCsv(const DepthResult& result);
// Every number; null where one is not finite.
nlohmann::ordered_json DepthJson(const DepthResult& result);

// Adds findings, figures and tables to the section that the page has begun, and keeps depth.csv, depth-heads.csv and depth.json
// beside it.
void TellDepth(const DepthResult& result, Page& page);
// A page of its own, of stacks over the text of this name, whose path it returns; its figures say that the command made them.
std::filesystem::path WriteDepth(const DepthResult& result, const std::string& text, const std::string& command,
                                 const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_LAB_DEPTH_OUTPUT_H_
