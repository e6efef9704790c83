#include "lab/study/run_store.h"

#include <exception>
#include <type_traits>

#include "lab/report/file.h"

namespace heed::lab {

nlohmann::ordered_json ToJson(const TrainOptions& options) {
  nlohmann::ordered_json json;
  const auto add = [&json](const char* name, const auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Objective>) {
      json[name] = ToString(field);
    } else {
      json[name] = field;
    }
  };
  VisitModelFields(options.model, add);
  VisitTrainFields(options, add);
  return json;
}

std::filesystem::path RunStore::FileOf(const StudyModel& model, const TrainOptions& options) const {
  return folder_ / (ToString(model.objective) + "-" + model.Id() + "-seed-" + std::to_string(options.seed) + ".json");
}

nlohmann::ordered_json RunStore::SettingsOf(const TrainOptions& options) const {
  return {{"training", ToJson(options)}, {"shared", shared_}};
}

std::optional<StudyRun> RunStore::Find(const StudyModel& model, const TrainOptions& options) const {
  const std::filesystem::path file = FileOf(model, options);
  if (!std::filesystem::exists(file)) return std::nullopt;
  try {
    const auto json = nlohmann::ordered_json::parse(ReadFile(file));
    if (json.at("settings") != SettingsOf(options)) return std::nullopt;
    return RunFromJson(json.at("run"));
  } catch (const std::exception&) {
    return std::nullopt;  // a damaged file is worth no more than none: the run is done again
  }
}

void RunStore::Keep(const StudyModel& model, const TrainOptions& options, const StudyRun& run) const {
  const nlohmann::ordered_json json = {{"settings", SettingsOf(options)}, {"run", ToJson(run)}};
  WriteFile(FileOf(model, options), json.dump(1) + "\n");
}

}  // namespace heed::lab
