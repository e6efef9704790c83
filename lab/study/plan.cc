#include "lab/study/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "heed/error.h"
#include "lab/runs/feed_forward.h"
#include "lab/training/language_model.h"

namespace heed::lab {
namespace {

ModelOptions ModelOf(const StudyOptions& options, const StudyModel& model) {
  ModelOptions result;
  result.encoder = model.encoder;
  result.position = model.position;
  result.objective = model.objective;
  result.layers = options.layers;
  result.heads = options.heads;
  result.width = options.width;
  result.context = options.context;
  result.ffn_width = model.ffn_width;
  return result;
}

int64_t CountParameters(const StudyOptions& options, StudyModel model, int64_t ffn_width, const Vocabulary& vocabulary) {
  model.ffn_width = ffn_width;
  return LanguageModel(ModelOf(options, model), vocabulary)->ParameterCount();
}

void EqualParameters(const StudyOptions& options, const Vocabulary& vocabulary, int64_t target, StudyModel& model) {
  const int64_t unit = std::max<int64_t>(1, options.width / 8);  // whole SIMD vectors at usual widths
  const FeedForwardFit fit =
      FitFeedForward(unit, target, [&](int64_t width) { return CountParameters(options, model, width, vocabulary); });
  model.ffn_width = fit.width;
  model.parameters = fit.parameters;
}

void RequireEqual(const std::vector<StudyModel>& models) {
  const auto [least, most] = std::minmax_element(
      models.begin(), models.end(), [](const StudyModel& a, const StudyModel& b) { return a.parameters < b.parameters; });
  if (static_cast<double>(most->parameters) <= (1.0 + kLargestDeviation) * static_cast<double>(least->parameters)) return;
  throw InvalidArgument("width: no feed-forward width makes the parameters equal within 5 %: " + least->Label() + " has " +
                        std::to_string(least->parameters) + ", " + most->Label() + " " + std::to_string(most->parameters) +
                        "; choose a larger width or a shorter context");
}

}  // namespace

std::vector<StudyModel> PlanModels(const StudyOptions& options, Objective objective, const Vocabulary& vocabulary) {
  const int64_t target = CountParameters(options, {{"attention", "none"}, objective, 0, 0}, 4 * options.width, vocabulary);
  std::vector<StudyModel> models;
  for (Contender& contender : Contenders(options.encoders, options.positions)) {
    models.push_back({std::move(contender), objective, 0, 0});
    EqualParameters(options, vocabulary, target, models.back());
  }
  RequireEqual(models);
  return models;
}

double InitialDeviation(int64_t width) { return 0.02 * std::sqrt(768.0 / static_cast<double>(width)); }

TrainOptions TrainingOf(const StudyOptions& options, const StudyModel& model, uint64_t seed) {
  TrainOptions train;
  train.model = ModelOf(options, model);
  train.batch = options.batch;
  train.steps = options.steps(model.objective);
  train.lr = options.lr;
  train.min_lr = options.lr / 10;
  train.warmup = train.steps / 10;
  train.eval_every = train.steps;
  train.seed = seed;
  return train;
}

}  // namespace heed::lab
