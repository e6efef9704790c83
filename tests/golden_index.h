// The golden cases that are there, whoever reads their tensors.
#ifndef HEED_TESTS_GOLDEN_INDEX_H_
#define HEED_TESTS_GOLDEN_INDEX_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "heed/weight_plan.h"

namespace heed {

// Where the golden cases lie, with a slash at its end: golden/ in $HEED_SHARED, else in the folder "shared" beside the
// checkout. It need not exist.
std::string GoldenFolder();
// Cases by the beginning of their name and a part of it; none where there is no such folder.
std::vector<std::string> GoldenNames(const std::string& prefix = "", const std::string& part = "");
std::string WhyNoGoldenCases();

nlohmann::json GoldenManifest(const std::string& name);
Framework FrameworkOf(const nlohmann::json& manifest);

}  // namespace heed

#endif  // HEED_TESTS_GOLDEN_INDEX_H_
