#include <string>
#include <utility>
#include <vector>

#include "lab/study/findings.h"
#include "lab/study/plan.h"
#include "lab/study/study.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

// The models of all objectives, each with its own.
Json ModelsJson(const StudyResult& result, bool whole) {
  Json models = Json::array();
  for (const ContestResult& contest : result.contests) {
    const Measurements& measured = contest.at_time;
    for (Json& model : measured.Json(whole ? std::vector<std::string>() : std::vector<std::string>{"training_loss"})) {
      model["objective"] = measured.part();
      models.push_back(std::move(model));
    }
  }
  return models;
}

Json SettingsJson(const StudyResult& result) {
  StudyOptions options = result.options;
  Json json = {{"budget", options.budget}};
  json.update(SettingsOf(FieldsOf(options)));
  json["runs_side_by_side"] = options.threads;
  json["threads_of_a_run"] = 1;
  json["initial_deviation"] = InitialDeviation(options.width);
  const Entry& any = result.contests.front().entries.front();
  json["training"] = ToJson(TrainingOf(options, Objective::kCausal, {any.model, any.steps, any.rate, options.seed}));
  for (const char* varies :
       {"encoder", "position", "objective", "ffn_width", "seed", "steps", "warmup", "lr", "min_lr", "eval_every"}) {
    json["training"].erase(varies);
  }
  return json;
}

Json ContestsJson(const StudyResult& result) {
  Json contests = Json::object();
  for (const ContestResult& contest : result.contests) contests[contest.at_time.part()] = ToJson(contest);
  return contests;
}

Json CountedJson(const CountedText& counted) {
  return {{"runs_of_characters", {{"order", counted.order}, {"discount", counted.discount}, {"loss", MeanOf(counted.losses)}}},
          {"previous_character", MeanOf(counted.one_before)},
          {"frequencies", MeanOf(counted.frequencies)}};
}

}  // namespace

Json StudyJson(const StudyResult& result, bool whole) {
  return {{"text",
           {{"name", result.text.name},
            {"characters", result.text.characters},
            {"fingerprint", result.text.fingerprint},
            {"vocabulary", result.vocabulary},
            {"block", result.block},
            {"training", result.training},
            {"validation", result.validation},
            {"test", result.test}}},
          {"settings", SettingsJson(result)},
          {"environment", ToJson(result.environment)},
          {"answer", Answer(result)},
          {"conclusion", ToJson(Conclusion(result))},
          {"baselines", CountedJson(result.counted)},
          {"contests", ContestsJson(result)},
          {"models", ModelsJson(result, whole)}};
}

}  // namespace heed::lab
