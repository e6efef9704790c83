#include "lab/study/plan.h"

#include <algorithm>
#include <type_traits>

#include "heed/error.h"
#include "lab/study/run.h"
#include "lab/training/language_model.h"
#include "lab/training/short_run.h"

namespace heed::lab {
namespace {

constexpr double kWeightDecay = 0.1;

ModelOptions ModelOf(const StudyOptions& options, Objective objective, const SizedContender& model) {
  ModelOptions result;
  result.encoder = model.encoder;
  result.position = model.position;
  result.objective = objective;
  result.layers = options.layers;
  result.heads = options.heads;
  result.width = options.width;
  result.context = options.context;
  result.ffn_width = model.ffn_width;
  return result;
}

void RequireEqual(const Models& models) {
  const auto [least, most] =
      std::minmax_element(models.begin(), models.end(),
                          [](const SizedContender& a, const SizedContender& b) { return a.parameters < b.parameters; });
  if (static_cast<double>(most->parameters) <= (1.0 + kLargestDeviation) * static_cast<double>(least->parameters)) return;
  throw InvalidArgument("width: no feed-forward width makes the parameters equal within 5 %: " + least->Label() + " has " +
                        std::to_string(least->parameters) + ", " + most->Label() + " " + std::to_string(most->parameters) +
                        "; choose a larger width or a shorter context");
}

}  // namespace

Models PlanModels(const StudyOptions& options, Objective objective, const Vocabulary& vocabulary) {
  const auto count = [&](const Contender& contender, int64_t ffn_width) {
    return LanguageModel(ModelOf(options, objective, {contender, ffn_width, 0}), vocabulary)->ParameterCount();
  };
  Models models = EqualContenders(options.encoders, options.positions, options.width, 4 * options.width, count);
  RequireEqual(models);
  return models;
}

TrainOptions TrainingOf(const StudyOptions& options, Objective objective, const Trial& trial) {
  TrainOptions train = ShortTraining(trial.steps, trial.rate, kWeightDecay);
  train.model = ModelOf(options, objective, trial.model);
  train.batch = options.batch;
  train.eval_every = train.steps;
  train.seed = trial.seed;
  return train;
}

Contest ContestOf(const TextParts& parts, StudyOptions& options, Objective objective, const ObserveModel& observe) {
  Contest contest;
  contest.id = ToString(objective);
  contest.models = PlanModels(options, objective, parts.vocabulary);
  contest.settings = RunSettingsOf(FieldsOf(options));
  contest.columns = StudyColumns(options);
  contest.weights.assign(parts.test.size(), 1.0);  // blocks are equally long
  contest.validate = [&parts, &options, objective](const Trial& trial, const OnStep& on_step) {
    return TrainAndValidate(parts, TrainingOf(options, objective, trial), on_step);
  };
  contest.report = [&parts, &options, objective, observe](const Trial& trial, const OnStep& on_step) {
    return TrainAndReport(parts, TrainingOf(options, objective, trial), observe, on_step);
  };
  contest.step_seconds = [&parts, &options, objective](const SizedContender& model) {
    return StepSeconds(parts.vocabulary, parts.train,
                       TrainingOf(options, objective, {model, 1, options.rates.front(), options.seed}));
  };
  return contest;
}

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

}  // namespace heed::lab
