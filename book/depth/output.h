// What deep stacks showed: figures, sentences, tables to read, files to compute with and a page.
#ifndef HEED_BOOK_DEPTH_OUTPUT_H_
#define HEED_BOOK_DEPTH_OUTPUT_H_

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "book/depth/depth.h"
#include "lab/report/figure.h"
#include "lab/report/page.h"

namespace heed::lab {

// A distance below this counts as all tokens alike.
inline constexpr double kAlike = 1e-6;
// A trained stack learns where it gets below the loss of the frequencies by more than this.
inline constexpr double kLearns = 0.1;  // nats per character

// As stacks start, by layer: distance from all tokens being alike (all in sight, causally, by scheme), entropy and largest
// weight of attention, gradients of states and of queries and keys. Trained: loss and time per token by depth, and the distance
// by layer in the deepest. What was not measured is left out.
std::vector<Figure> DepthFigures(const DepthResult& result);

// The mean over the heads of a layer.
double MeanOver(const std::vector<double>& heads);

// A sentence or two, computed from the measurements, and the names of the figures that show it.
struct DepthFinding {
  std::string text;  // empty where nothing was measured
  std::vector<std::string> figures;
};

// In which stacks tokens become alike, with all tokens in sight, causally and by scheme; where attention looks at all tokens
// alike; what is left of the gradient; which stacks learn at which depths; what a layer costs.
std::vector<DepthFinding> DepthFindings(const DepthResult& result);

// One paragraph for a conclusion: whether attention alone keeps tokens apart, and how deep trains.
std::string DepthConclusion(const DepthResult& result);

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
