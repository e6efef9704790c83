// An inspection as one HTML page.
#ifndef HEED_LAB_INSPECTION_PAGE_H_
#define HEED_LAB_INSPECTION_PAGE_H_

#include <string>

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

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_PAGE_H_
