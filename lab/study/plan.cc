#include "lab/study/plan.h"

#include <algorithm>
#include <cmath>

#include "heed/error.h"
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

// The parameters are linear in the feed-forward width, so two counts tell which width comes nearest to the target.
void FitFeedForward(const StudyOptions& options, const Vocabulary& vocabulary, int64_t target, StudyModel& model) {
  const int64_t unit = std::max<int64_t>(1, options.width / 8);  // whole SIMD vectors at usual widths
  const int64_t least = CountParameters(options, model, unit, vocabulary);
  const int64_t slope = CountParameters(options, model, 2 * unit, vocabulary) - least;
  const int64_t more = std::llround(static_cast<double>(target - least) / static_cast<double>(slope));
  model.ffn_width = unit * std::max<int64_t>(1, 1 + more);
  model.parameters = CountParameters(options, model, model.ffn_width, vocabulary);
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

std::string SchemeLabel(const std::string& position) {
  if (position == "alibi") return "ALiBi";
  if (position == "t5") return "T5's bias";
  if (position == "shaw") return "Shaw";
  return position == "relative" ? "relative bias" : position;
}

std::string StudyModel::Id() const { return attends() ? encoder + "-" + position : encoder; }

std::string StudyModel::Label() const {
  if (attends()) return position == "none" ? "attention, no positions" : "attention, " + SchemeLabel(position);
  if (encoder == "dilated") return "dilated convolution";
  if (encoder == "convolution") return encoder;
  if (encoder == "gru-attention") return "GRU with attention";
  if (encoder == "decomposable") return "decomposable attention";
  std::string upper = encoder;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](char c) { return static_cast<char>(c - 'a' + 'A'); });
  return upper;
}

std::string StudyModel::Phrase() const {
  if (encoder == "decomposable") return Label();
  if (!attends()) return "the " + Label();
  if (position == "none") return "attention without positions";
  if (position == "alibi") return "attention with ALiBi";
  if (position == "relative") return "attention with a relative bias";
  if (position == "t5") return "attention with T5's bias";
  if (position == "shaw") return "attention with Shaw's relative positions";
  return "attention with " + position + " positions";
}

std::vector<StudyModel> PlanModels(const StudyOptions& options, Objective objective, const Vocabulary& vocabulary) {
  const int64_t target = CountParameters(options, {"attention", "none", objective, 0, 0}, 4 * options.width, vocabulary);
  std::vector<StudyModel> models;
  for (const std::string& encoder : options.encoders) {
    const bool attends = encoder == "attention";
    for (const std::string& position : attends ? options.positions : std::vector<std::string>{"none"}) {
      models.push_back({encoder, position, objective, 0, 0});
      FitFeedForward(options, vocabulary, target, models.back());
    }
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
