// An inspection as one HTML page, as numbers and as exact arrays for other programs.
#ifndef HEED_LAB_INSPECTION_PAGE_H_
#define HEED_LAB_INSPECTION_PAGE_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "lab/inspection/inspection.h"
#include "lab/report/page.h"

namespace heed::lab {

// The whole page: markup, style and script of lab/inspection/page/, the numbers as JSON and the maps as packed codes. It needs
// no network and forbids itself every request (Content-Security-Policy). Characters of the text reach the document as text
// alone, whatever they are. `model` names the model.
std::string InspectionPage(const Inspection& inspection, const std::string& model);

// "to within 2.9 %, 0 below 4.6e-07", and so on: what the maps of the page show of the weights, in a sentence.
std::string PrecisionInWords(const Inspection& inspection);

// What the maps show and how exactly, and the statistics of every head.
nlohmann::ordered_json InspectionJson(const Inspection& inspection);
// A line a head.
Table HeadTable(const Inspection& inspection);

// NPY files of the weights, and a JSON file that says what they are. In `folder`, made where it is missing, each file written
// beside and renamed:
//
//   attention-layerL.npy  float32 [heads, tokens, tokens] for each layer L of the selection
//   statistics.npy        float32 [layers, heads, 4, tokens]: entropy (nats), largest weight, mean distance (tokens), weight on
//                         the first token, of each query
//   arrays.json           names, shapes, layers, heads, the text or the labels of steps; written last
//
// Returns the files. Throws FileError, and Interruption on Ctrl-C.
std::vector<std::filesystem::path> WriteArrays(const Reading& reading, const HeadSelection& selection,
                                               const std::filesystem::path& folder,
                                               const std::function<void(int64_t done)>& on_head = {});

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_PAGE_H_
