// On what a study ran.
#ifndef HEED_LAB_STUDY_ENVIRONMENT_H_
#define HEED_LAB_STUDY_ENVIRONMENT_H_

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heed::lab {

struct Environment {
  std::string version, libtorch, compiler;
  std::string cpu;                        // the processor's own name as Linux tells it; "unknown" elsewhere
  std::vector<std::string> simd_targets;  // that the engine can use here, the best first
  int threads_available = 0;
};

Environment ThisEnvironment();
nlohmann::ordered_json ToJson(const Environment& environment);

}  // namespace heed::lab

#endif  // HEED_LAB_STUDY_ENVIRONMENT_H_
