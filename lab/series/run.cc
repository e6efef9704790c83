#include "lab/series/run.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>

#include "lab/series/levels.h"
#include "lab/training/fit.h"
#include "lab/training/interrupt.h"
#include "lab/training/sequence_model.h"
#include "lab/training/step.h"

namespace heed::lab {
namespace {

bool Classifies(const SeriesBatches& batches) { return batches.data().goal == SeriesGoal::kClassification; }

SequenceModelOptions ModelOf(const SeriesBatches& batches, const Contender& contender, int64_t ffn_width,
                             const SeriesOptions& options) {
  SequenceModelOptions model;
  model.encoder = contender.encoder;
  model.position = contender.position;
  model.causal = batches.data().goal == SeriesGoal::kForecast;
  model.features = batches.width() + (model.causal ? batches.data().Width() : 0);  // see RelativeLevels
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

// A network, and what it sees of a batch.
class SeriesModel {
 public:
  SeriesModel(const SeriesBatches& batches, const SizedContender& model, const SeriesOptions& options)
      : batches_(batches), network_(ModelOf(batches, model, model.ffn_width, options)) {
    if (batches.data().goal == SeriesGoal::kForecast) levels_.emplace(batches);
  }

  SequenceModel& network() { return network_; }

  // [scored, outputs].
  at::Tensor Answers(const SeriesBatch& batch) {
    const bool padded = std::any_of(batch.lengths.begin(), batch.lengths.end(), [&](int64_t n) { return n != batch.steps; });
    const at::Tensor X = View(batch.features, {batch.rows, batch.steps, batches_.width()});
    const at::Tensor lengths = padded ? View(batch.lengths, {batch.rows}) : at::Tensor();
    const at::Tensor times = batches_.data().has_times ? View(batch.times, {batch.rows, batch.steps}) : at::Tensor();
    at::Tensor Y = network_->forward(levels_ ? (*levels_)(X) : X, lengths, times);
    if (batches_.pooled()) return Y;
    return Y.flatten(0, 1).index_select(0, View(batch.scored, {std::ssize(batch.scored)}));
  }

 private:
  const SeriesBatches& batches_;
  SequenceModel network_;
  std::optional<RelativeLevels> levels_;  // of a forecast
};

at::Tensor Loss(const at::Tensor& answers, const SeriesBatch& batch, at::Reduction::Reduction reduction) {
  if (!batch.classes.empty()) return at::cross_entropy_loss(answers, View(batch.classes, {answers.size(0)}), {}, reduction);
  return at::mse_loss(answers, View(batch.values, {answers.size(0), answers.size(1)}), reduction);
}

// The loss, and of a classification the accuracy.
std::vector<double> Evaluate(SeriesModel& model, const SeriesBatches& batches) {
  const at::NoGradGuard no_grad;
  double loss = 0, right = 0, count = 0;
  batches.ForEachTest([&](const SeriesBatch& batch) {
    if (Interrupted()) throw Interruption("interrupted during an evaluation");
    const at::Tensor answers = model.Answers(batch);
    loss += Loss(answers, batch, at::Reduction::Sum).item<double>();
    count += static_cast<double>(batch.classes.empty() ? batch.values.size() : batch.classes.size());
    if (!batch.classes.empty()) right += answers.argmax(1).eq(View(batch.classes, {answers.size(0)})).sum().item<double>();
  });
  loss *= batches.error_scale() / count;
  RequireFinite("evaluation", "the loss", loss);
  return Classifies(batches) ? std::vector<double>{loss, right / count} : std::vector<double>{loss};
}

}  // namespace

Models PlanSeries(const SeriesBatches& batches, const SeriesOptions& options) {
  return EqualContenders(options.encoders, options.positions, options.width, 2 * options.width,
                         [&](const Contender& contender, int64_t ffn_width) {
                           return ParameterCount(*SequenceModel(ModelOf(batches, contender, ffn_width, options)));
                         });
}

std::vector<Column> SeriesMeasures(SeriesGoal goal) {
  const Measure nats = {.name = "loss", .label = "Loss (nats per answer)", .phrase = "a loss of {} nats"};
  const Measure error = {
      .name = "loss", .label = "Mean squared error", .phrase = "a mean squared error of {}", .digits = 4, .significant = true};
  const Measure accuracy = {.name = "accuracy", .label = "Accuracy", .phrase = "an accuracy of {}", .more_is_better = true};
  std::vector<Column> columns;
  if (goal == SeriesGoal::kClassification) {
    columns = {{nats}, {accuracy}};
  } else {
    columns = {{error}};
  }
  columns.push_back({{.name = "training_loss", .label = "Training loss"}});
  columns.push_back({{.name = "step_seconds", .label = "Seconds a step"}});
  return columns;
}

Outcome TrainOnSeries(const SeriesBatches& batches, const SizedContender& model, const SeriesOptions& options, uint64_t seed,
                      const std::function<void()>& on_step) {
  std::optional<SeriesModel> trained;
  BuildSeeded(seed, [&] { trained.emplace(batches, model, options); });
  Random random(seed);
  SeriesBatch batch;  // the tensors of a step are views of it
  const FitReport report = Fit(*trained->network(), SeriesTraining(options),
                               [&] {
                                 batch = batches.Draw(random);
                                 return Loss(trained->Answers(batch), batch, at::Reduction::Mean);
                               },
                               {.on_step = [&](const FitStep&) { on_step(); }});
  Outcome outcome{Evaluate(*trained, batches)};
  outcome.values.push_back(report.last_loss * batches.error_scale());
  outcome.values.push_back(report.step_seconds);
  return outcome;
}

}  // namespace heed::lab
