#include "lab/report/result_store.h"

#include <exception>

#include "lab/report/file.h"
#include "lab/report/json.h"

namespace heed::lab {

nlohmann::ordered_json ResultStore::All(const nlohmann::ordered_json& settings) const {
  return {{"own", settings}, {"shared", shared_}};
}

std::optional<nlohmann::ordered_json> ResultStore::Find(const std::string& name, const nlohmann::ordered_json& settings) const {
  const std::filesystem::path file = folder_ / (name + ".json");
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    const auto json = nlohmann::ordered_json::parse(ReadFile(file, kMostSettingsBytes));
    if (json.at("settings") != All(settings)) return std::nullopt;
    return json.at("result");
  } catch (const std::exception&) {
    return std::nullopt;  // a damaged file is worth no more than none: the work is done again
  }
}

void ResultStore::Keep(const std::string& name, const nlohmann::ordered_json& settings,
                       const nlohmann::ordered_json& result) const {
  const nlohmann::ordered_json json = {{"settings", All(settings)}, {"result", result}};
  WriteFile(folder_ / (name + ".json"), JsonText(json, 1) + "\n");
}

void ResultStore::Forget(const std::string& name) const { std::filesystem::remove(folder_ / (name + ".json")); }

}  // namespace heed::lab
