// Measurements of deep stacks as tables to read, as files to compute with and as a page.
#ifndef HEED_BOOK_DEPTH_OUTPUT_H_
#define HEED_BOOK_DEPTH_OUTPUT_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/depth/depth.h"
#include "lab/report/page.h"

namespace heed::lab {

// The variants; every stack as it starts, behind chosen layers; every trained stack.
std::vector<Table> DepthTables(const DepthResult& result);

// One line a stack and layer, and one a stack, layer and head. Numbers that are not finite are written nan.
std::string DepthCsv(const DepthResult& result);
std::string DepthHeadsCsv(const DepthResult& result);
// Every number; null where one is not finite.
nlohmann::ordered_json DepthJson(const DepthResult& result);

// Findings, figures and tables of stacks over the text of this name as a page, whose path it returns, with depth.csv,
// depth-heads.csv and depth.json beside it; its figures say that the command made them. FileError.
std::filesystem::path WriteDepth(const DepthResult& result, const std::string& text, const std::string& command,
                                 const std::filesystem::path& folder);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_OUTPUT_H_
