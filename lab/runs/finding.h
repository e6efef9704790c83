// The conclusions of an experiment.
#ifndef HEED_LAB_RUNS_FINDING_H_
#define HEED_LAB_RUNS_FINDING_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heed::lab {

// A sentence or more, computed from measurements: other measurements, other sentences.
struct Finding {
  std::string question, answer;
};

// Those that have an answer.
inline std::vector<Finding> Answered(std::vector<Finding> findings) {
  std::erase_if(findings, [](const Finding& finding) { return finding.answer.empty(); });
  return findings;
}

inline nlohmann::ordered_json ToJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) json.push_back({{"question", finding.question}, {"answer", finding.answer}});
  return json;
}

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_FINDING_H_
