#include <iterator>
#include <string>

#include "lab/comparison/output.h"
#include "lab/depth/output.h"
#include "lab/study/findings.h"
#include "lab/study/study.h"
#include "lab/tasks/output.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

Json ModelJson(const ModelResult& result, const StudyOptions& options, bool curves) {
  const StudyModel& model = result.model;
  Json json = {{"model", model.Id()},          {"encoder", model.encoder},
               {"position", model.position},   {"objective", ToString(model.objective)},
               {"ffn_width", model.ffn_width}, {"parameters", model.parameters},
               {"losses", Json::object()},     {"tokens_per_second", ToJson(result.TokensPerSecond())},
               {"runs", Json::array()}};
  for (std::size_t i = 0; i < std::size(kLengthMultiples); ++i) {
    const std::string length = std::to_string(kLengthMultiples[i] * options.context);
    json["losses"][length] = result.Reaches(i) ? ToJson(result.Loss(i)) : Json(nullptr);
  }
  for (const StudyRun& run : result.runs) {
    Json entry = ToJson(run);
    entry.erase("table");  // it is drawn, and lies beside its figure
    if (!curves) {
      entry.erase("curve_steps");
      entry.erase("curve_losses");
    }
    json["runs"].push_back(std::move(entry));
  }
  return json;
}

Json SettingsJson(const StudyResult& result) {
  const StudyOptions& options = result.options;
  Json json = {{"budget", options.budget},
               {"encoders", options.encoders},
               {"positions", options.positions},
               {"causal_steps", options.steps(Objective::kCausal)},
               {"masked_steps", options.steps(Objective::kMasked)},
               {"seeds", options.seeds},
               {"seed", options.seed},
               {"runs_side_by_side", options.threads},
               {"threads_of_a_run", 1},
               {"initial_deviation", InitialDeviation(options.width)},
               {"compared_lengths", options.compared_lengths}};
  if (!result.causal.empty()) json["training"] = ToJson(TrainingOf(options, result.causal.front().model, options.seed));
  for (const char* varies : {"encoder", "position", "objective", "ffn_width", "seed", "steps", "warmup", "eval_every"}) {
    json["training"].erase(varies);
  }
  return json;
}

}  // namespace

Json StudyJson(const StudyResult& result, bool curves) {
  Json json = {{"text",
                {{"name", result.text.name},
                 {"characters", result.text.characters},
                 {"fingerprint", result.text.fingerprint},
                 {"vocabulary", result.vocabulary},
                 {"training", result.training},
                 {"validation", result.validation}}},
               {"settings", SettingsJson(result)},
               {"environment", ToJson(result.environment)},
               {"conclusion", Json::array()},
               {"baselines",
                {{"frequencies", result.baselines.frequencies}, {"previous_character", result.baselines.previous_character}}},
               {"models", Json::array()}};
  for (const Finding& finding : Conclusion(result)) {
    json["conclusion"].push_back({{"question", finding.question}, {"answer", finding.answer}});
  }
  for (const auto* models : {&result.causal, &result.masked}) {
    for (const ModelResult& model : *models) json["models"].push_back(ModelJson(model, result.options, curves));
  }
  json["rotation"] = {{"table_error", result.rotation.table_error},
                      {"rotation_error", result.rotation.rotation_error},
                      {"least_squares_error", result.rotation.least_squares_error},
                      {"shifts", result.rotation.shifts},
                      {"passed", result.rotation.Passed()}};
  if (curves && result.depth) json["depth"] = DepthJson(*result.depth);
  if (curves && result.tasks) json["tasks"] = TasksJson(*result.tasks);
  if (curves) json["comparison"] = ComparisonJson(result.comparison);
  return json;
}

}  // namespace heed::lab
