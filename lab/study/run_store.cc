#include "lab/study/run_store.h"

#include <exception>
#include <type_traits>

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

std::string RunStore::NameOf(const StudyModel& model, const TrainOptions& options) {
  return ToString(model.objective) + "-" + model.Id() + "-seed-" + std::to_string(options.seed);
}

std::optional<StudyRun> RunStore::Find(const StudyModel& model, const TrainOptions& options) const {
  const auto result = results_.Find(NameOf(model, options), ToJson(options));
  if (!result) return std::nullopt;
  try {
    return RunFromJson(*result);
  } catch (const std::exception&) {
    return std::nullopt;  // it is no run: it is done again
  }
}

void RunStore::Keep(const StudyModel& model, const TrainOptions& options, const StudyRun& run) const {
  results_.Keep(NameOf(model, options), ToJson(options), ToJson(run));
}

}  // namespace heed::lab
