#include <string>
#include <utility>
#include <vector>

#include "lab/comparison/output.h"
#include "lab/depth/output.h"
#include "lab/study/findings.h"
#include "lab/study/plan.h"
#include "lab/study/study.h"
#include "lab/tasks/output.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

// The models of both objectives, each with its own.
Json ModelsJson(const StudyResult& result, bool whole) {
  Json models = Json::array();
  for (const Measurements& measured : result.objectives) {
    for (Json& model : measured.Json(whole ? std::vector<std::string>() : std::vector<std::string>{"training_loss"})) {
      model["objective"] = measured.part();
      models.push_back(std::move(model));
    }
  }
  return models;
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
  const SizedContender& any = result.Of(Objective::kCausal).models().front();
  json["training"] = ToJson(TrainingOf(options, Objective::kCausal, any, options.seed));
  for (const char* varies : {"encoder", "position", "objective", "ffn_width", "seed", "steps", "warmup", "eval_every"}) {
    json["training"].erase(varies);
  }
  return json;
}

}  // namespace

Json StudyJson(const StudyResult& result, bool whole) {
  Json json = {{"text",
                {{"name", result.text.name},
                 {"characters", result.text.characters},
                 {"fingerprint", result.text.fingerprint},
                 {"vocabulary", result.vocabulary},
                 {"training", result.training},
                 {"validation", result.validation}}},
               {"settings", SettingsJson(result)},
               {"environment", ToJson(result.environment)},
               {"conclusion", ToJson(Conclusion(result))},
               {"baselines",
                {{"frequencies", result.baselines.frequencies}, {"previous_character", result.baselines.previous_character}}},
               {"models", ModelsJson(result, whole)}};
  json["rotation"] = {{"table_error", result.rotation.table_error},
                      {"rotation_error", result.rotation.rotation_error},
                      {"least_squares_error", result.rotation.least_squares_error},
                      {"shifts", result.rotation.shifts},
                      {"passed", result.rotation.Passed()}};
  if (whole && result.depth) json["depth"] = DepthJson(*result.depth);
  if (whole && result.tasks) json["tasks"] = TasksJson(*result.tasks);
  if (whole) json["comparison"] = ComparisonJson(result.comparison);
  return json;
}

}  // namespace heed::lab
