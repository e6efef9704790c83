#include "lab/series/run.h"

#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>

#include "heed/error.h"
#include "lab/training/fit.h"
#include "lab/training/interrupt.h"
#include "lab/training/sequence_model.h"
#include "lab/training/step.h"

namespace heed::lab {
namespace {

SequenceModelOptions ModelOf(const SeriesBatches& batches, const Contender& contender, int64_t ffn_width,
                             const SeriesOptions& options) {
  SequenceModelOptions model;
  model.encoder = contender.encoder;
  model.position = contender.position;
  model.causal = batches.data().goal == SeriesGoal::kForecast;
  model.features = batches.width();
  model.outputs = batches.outputs();
  model.pooled = batches.pooled();
  model.layers = options.layers;
  model.heads = options.heads;
  model.width = options.width;
  model.ffn_width = ffn_width;
  model.longest = batches.longest();
  return model;
}

// A tensor over the vector's own memory, which must outlive it.
template <class T>
at::Tensor View(const std::vector<T>& values, at::IntArrayRef shape) {
  return at::from_blob(const_cast<T*>(values.data()), shape, at::CppTypeToScalarType<T>::value);
}

// [scored, outputs].
at::Tensor Answers(SequenceModel& model, const SeriesBatches& batches, const SeriesBatch& batch) {
  const bool padded = std::any_of(batch.lengths.begin(), batch.lengths.end(), [&](int64_t n) { return n != batch.steps; });
  const at::Tensor X = View(batch.features, {batch.rows, batch.steps, batches.width()});
  const at::Tensor lengths = padded ? View(batch.lengths, {batch.rows}) : at::Tensor();
  const at::Tensor times = batches.data().has_times ? View(batch.times, {batch.rows, batch.steps}) : at::Tensor();
  at::Tensor Y = model->forward(X, lengths, times);
  if (batches.pooled()) return Y;
  return Y.flatten(0, 1).index_select(0, View(batch.scored, {std::ssize(batch.scored)}));
}

at::Tensor Loss(const at::Tensor& answers, const SeriesBatch& batch, at::Reduction::Reduction reduction) {
  if (!batch.classes.empty()) return at::cross_entropy_loss(answers, View(batch.classes, {answers.size(0)}), {}, reduction);
  return at::mse_loss(answers, View(batch.values, {answers.size(0), answers.size(1)}), reduction);
}

void Evaluate(SequenceModel& model, const SeriesBatches& batches, SeriesRun& run) {
  const at::NoGradGuard no_grad;
  double count = 0;
  batches.ForEachValidation([&](const SeriesBatch& batch) {
    if (Interrupted()) throw Interruption("interrupted during an evaluation");
    const at::Tensor answers = Answers(model, batches, batch);
    run.loss += Loss(answers, batch, at::Reduction::Sum).item<double>();
    count += static_cast<double>(batch.classes.empty() ? batch.values.size() : batch.classes.size());
    if (batch.classes.empty()) return;
    run.accuracy += answers.argmax(1).eq(View(batch.classes, {answers.size(0)})).sum().item<double>();
  });
  run.loss *= batches.error_scale() / count;
  RequireFinite("evaluation", "the loss", run.loss);
  run.accuracy /= count;
}

}  // namespace

std::vector<SeriesModel> PlanSeries(const SeriesBatches& batches, const SeriesOptions& options) {
  return EqualContenders(options.encoders, options.positions, options.width, 2 * options.width,
                         [&](const Contender& contender, int64_t ffn_width) {
                           return ParameterCount(*SequenceModel(ModelOf(batches, contender, ffn_width, options)));
                         });
}

SeriesRun TrainOnSeries(const SeriesBatches& batches, const SeriesModel& model, const SeriesOptions& options, uint64_t seed,
                        const std::function<void()>& on_step) {
  SequenceModel network{nullptr};
  BuildSeeded(seed, [&] { network = SequenceModel(ModelOf(batches, model, model.ffn_width, options)); });
  Random random(seed);
  SeriesBatch batch;  // the tensors of a step are views of it
  const FitReport report = Fit(*network, TrainingOf(options, seed),
                               [&] {
                                 batch = batches.Draw(random);
                                 return Loss(Answers(network, batches, batch), batch, at::Reduction::Mean);
                               },
                               {.on_step = [&](const FitStep&) { on_step(); }});
  SeriesRun run;
  run.seed = seed;
  run.training = report.last_loss;
  run.step_seconds = report.step_seconds;
  Evaluate(network, batches, run);
  return run;
}

nlohmann::ordered_json ToJson(const SeriesRun& run) {
  return {{"seed", run.seed},
          {"loss", run.loss},
          {"accuracy", run.accuracy},
          {"training_loss", run.training},
          {"step_seconds", run.step_seconds}};
}

SeriesRun SeriesRunFromJson(const nlohmann::ordered_json& json) {
  SeriesRun run;
  run.seed = json.at("seed").get<uint64_t>();
  run.loss = json.at("loss").get<double>();
  run.accuracy = json.at("accuracy").get<double>();
  run.training = json.at("training_loss").get<double>();
  run.step_seconds = json.at("step_seconds").get<double>();
  if (!std::isfinite(run.loss) || !(run.step_seconds > 0)) throw InvalidArgument("run: it is not whole");
  return run;
}

}  // namespace heed::lab
