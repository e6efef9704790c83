#include "tests/golden_index.h"

#include <cstdlib>
#include <fstream>

namespace heed {
namespace {

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

}  // namespace

std::string GoldenFolder() {
  const char* shared = std::getenv("HEED_SHARED");
  return (shared != nullptr ? std::string(shared) : std::string(HEED_SOURCE_DIR "/../shared")) + "/golden/";
}

std::vector<std::string> GoldenNames(const std::string& prefix, const std::string& part) {
  std::vector<std::string> names;
  const std::string index = GoldenFolder() + "INDEX.json";
  if (!std::ifstream(index)) return names;
  for (const auto& entry : ReadJson(index)) {
    const std::string name = entry.at("case");
    if (name.starts_with(prefix) && name.find(part) != std::string::npos) names.push_back(name);
  }
  return names;
}

std::string WhyNoGoldenCases() {
  return "no golden cases in " + GoldenFolder() + "; HEED_SHARED names the folder that holds golden/";
}

nlohmann::json GoldenManifest(const std::string& name) { return ReadJson(GoldenFolder() + name + ".json"); }

Framework FrameworkOf(const nlohmann::json& manifest) {
  const std::string name = manifest.at("framework").at("name");
  if (name.find("flax") != std::string::npos) return Framework::kFlax;
  if (name.find("keras") != std::string::npos) return Framework::kKeras;
  if (name == "transformers") return Framework::kHf;
  return ParseFramework(name);
}

}  // namespace heed
