#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/options/fields.h"
#include "lab/report/file.h"
#include "lab/runs/outlook.h"
#include "lab/study/findings.h"
#include "lab/study/study.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 2;  // of study.json; a change that breaks its readers raises it

Json SettingsJson(const StudyResult& result) {
  StudyOptions options = result.options;
  const TrainOptions training = TrainingOf(options, 1, 1, options.seed);
  Json json = {{"budget", options.budget}};
  json.update(SettingsOf(FieldsOf(options)));
  json["runs_side_by_side"] = options.threads;
  json["threads_of_a_run"] = 1;
  json["initial_deviation"] = InitialDeviation(options.width);
  json["optimiser"] = {{"beta1", training.beta1},
                       {"beta2", training.beta2},
                       {"zero_rate", training.zero_rate},
                       {"weight_decay", training.weight_decay},
                       {"clip", training.clip}};
  return json;
}

Json ToJson(const Baseline& baseline, bool classifies) {
  Json json = {{"name", baseline.name},
               {"setting", baseline.setting},
               {"limits", baseline.limits},
               {"loss", baseline.loss},
               {"validation_loss", baseline.validation},
               {"blocks", baseline.blocks}};
  if (classifies) json["accuracy"] = baseline.accuracy;
  return json;
}

// times: see OutlookOf; 0: not asked.
Json ToJson(const StudiedTask& task, double times) {
  Json json = {{"task", task.id}, {"purpose", task.question.purpose}, {"baselines", Json::array()}};
  const bool classifies = !task.contest.at_time.ColumnsOf("accuracy").empty();
  for (const Baseline& baseline : task.baselines) json["baselines"].push_back(ToJson(baseline, classifies));
  const Worth worth = WorthOf(task);
  json["worth"] = {{"answer", worth.answer},
                   {"baseline", task.BestBaseline().name},
                   {"gap", worth.behind.gap},
                   {"gap_by_both", ToJson(worth.behind.by_both)}};
  json.update(ToJson(task.contest));
  if (times > 1) json["for"] = ToJson(OutlookOf(task.contest, times), task.contest);
  json["models"] = task.contest.at_time.Json();
  return json;
}

}  // namespace

std::optional<EarlierStudy> EarlierStudyIn(const std::filesystem::path& folder) {
  try {
    const Json json = ParseSettings(ReadFile(folder / "study.json", kMostSettingsBytes));
    const Json& data = json.at("data");
    return EarlierStudy{data.at("kind"), data.at("name"), data.at("fingerprint"),
                        json.value("files", std::vector<std::string>())};
  } catch (...) {
    return std::nullopt;
  }
}

Json StudyJson(const StudyResult& result) {
  Json json = {{"format", kFormat},
               {"data", result.data.json},
               {"settings", SettingsJson(result)},
               {"environment", ToJson(result.environment)},
               {"answer", Answer(result)},
               {"conclusion", ToJson(Conclusion(result))},
               {"tasks", Json::array()}};
  for (const StudiedTask& task : result.tasks)
    json["tasks"].push_back(ToJson(task, result.options.for_seconds / result.options.seconds));
  return json;
}

}  // namespace heed::lab
