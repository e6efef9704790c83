// An inspection as numbers.
#ifndef HEED_LAB_INSPECTION_OUTPUT_H_
#define HEED_LAB_INSPECTION_OUTPUT_H_

#include <nlohmann/json.hpp>

#include "lab/inspection/inspection.h"
#include "lab/report/page.h"

namespace heed::lab {

// What the maps show and how exactly, and the statistics of every head.
nlohmann::ordered_json InspectionJson(const Inspection& inspection);
// A line a head.
Table HeadTable(const Inspection& inspection);

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_OUTPUT_H_
