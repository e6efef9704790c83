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

// Of a model on some windows: sums over the answers.
struct Tally {
  double loss = 0, right = 0, count = 0;
};

Tally Tallied(SeriesModel& model, const SeriesBatches& batches, const std::vector<SeriesWindow>& windows) {
  const at::NoGradGuard no_grad;
  Tally tally;
  batches.ForEach(windows, [&](const SeriesBatch& batch) {
    if (Interrupted()) throw Interruption("interrupted during an evaluation");
    const at::Tensor answers = model.Answers(batch);
    tally.loss += batches.error_scale() * Loss(answers, batch, at::Reduction::Sum).item<double>();
    tally.count += static_cast<double>(batch.classes.empty() ? batch.values.size() : batch.classes.size());
    if (!batch.classes.empty())
      tally.right += answers.argmax(1).eq(View(batch.classes, {answers.size(0)})).sum().item<double>();
  });
  RequireFinite("evaluation", "the loss", tally.loss);
  return tally;
}

double Validated(SeriesModel& model, const SeriesBatches& batches) {
  const Tally tally = Tallied(model, batches, batches.validation_windows());
  return tally.loss / tally.count;
}

// A model that is trained step by step.
class Training {
 public:
  Training(const SeriesBatches& batches, const SeriesOptions& options, const SizedContender& model, uint64_t seed)
      : batches_(batches), random_(seed) {
    BuildSeeded(seed, [&] { model_.emplace(batches, model, options); });
  }

  SeriesModel& model() { return *model_; }
  at::Tensor NextLoss() {
    batch_ = batches_.Draw(random_);
    return Loss(model_->Answers(batch_), batch_, at::Reduction::Mean);
  }

 private:
  const SeriesBatches& batches_;
  std::optional<SeriesModel> model_;
  Random random_;
  SeriesBatch batch_;  // the tensors of a step are views of it
};

// Returns the mean loss over the last tenth of the steps.
double Train(Training& training, const Trial& trial, const OnStep& on_step) {
  return Fit(*training.model().network(), SeriesTraining(trial.steps, trial.rate), [&] { return training.NextLoss(); },
             {.on_step = [&](const FitStep&) { on_step(); }})
      .last_loss;
}

Outcome Report(const SeriesBatches& batches, const SeriesOptions& options, const std::vector<std::vector<SeriesWindow>>& blocks,
               const Trial& trial, const OnStep& on_step) {
  Training training(batches, options, trial.model, trial.seed);
  const double training_loss = Train(training, trial, on_step) * batches.error_scale();
  Tally all;
  std::vector<double> losses;
  for (const std::vector<SeriesWindow>& block : blocks) {
    const Tally tally = Tallied(training.model(), batches, block);
    losses.push_back(tally.loss / tally.count);
    all.loss += tally.loss, all.right += tally.right, all.count += tally.count;
  }
  Outcome outcome{{all.loss / all.count}, {{"blocks", losses}}};
  if (Classifies(batches)) outcome.values.push_back(all.right / all.count);
  outcome.values.push_back(Validated(training.model(), batches));
  outcome.values.push_back(training_loss);
  return outcome;
}

double StepSeconds(const SeriesBatches& batches, const SeriesOptions& options, const SizedContender& model) {
  Training training(batches, options, model, options.seed);
  const TrainOptions endless = SeriesTraining(int64_t{1} << 40, options.rates.front());
  AdamW optimizer(NamedParameters(*training.model().network()), endless);
  training.model().network()->train();
  int64_t step = 0;
  return MedianSeconds([&] {
    double seconds = 0;
    Fit(optimizer, endless.clip, step, step + 1, [&] { return training.NextLoss(); },
        {.on_step = [&](const FitStep& done) { seconds = done.thread_seconds; }});
    ++step;
    return seconds;
  });
}

// How many answers each block asks for.
std::vector<double> AnswersOf(const SeriesBatches& batches, const std::vector<std::vector<SeriesWindow>>& blocks) {
  std::vector<double> answers;
  for (const std::vector<SeriesWindow>& block : blocks) {
    answers.push_back(0);
    batches.ForEach(block, [&](const SeriesBatch& batch) {
      answers.back() += static_cast<double>(batch.classes.empty() ? batch.values.size() : batch.classes.size());
    });
  }
  return answers;
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
  columns.push_back({{.name = "validation_loss", .label = "Loss on the validation part"}});
  columns.push_back({{.name = "training_loss", .label = "Training loss"}});
  return columns;
}

std::vector<std::vector<SeriesWindow>> TestBlocks(const SeriesBatches& batches) {
  constexpr int64_t kMostBlocks = 32;
  const std::vector<SeriesWindow>& windows = batches.test_windows();
  const int64_t count = std::min(kMostBlocks, std::ssize(windows));
  std::vector<std::vector<SeriesWindow>> blocks;
  for (int64_t b = 0; b < count; ++b) {
    blocks.emplace_back(windows.begin() + b * std::ssize(windows) / count,
                        windows.begin() + (b + 1) * std::ssize(windows) / count);
  }
  return blocks;
}

Contest ContestOf(const SeriesBatches& batches, SeriesOptions& options) {
  const std::vector<std::vector<SeriesWindow>> blocks = TestBlocks(batches);
  Contest contest;
  contest.id = ToString(batches.data().goal);
  contest.models = PlanSeries(batches, options);
  contest.settings = RunSettingsOf(FieldsOf(options));
  contest.columns = SeriesMeasures(batches.data().goal);
  contest.weights = AnswersOf(batches, blocks);
  contest.validate = [&batches, &options](const Trial& trial, const OnStep& on_step) {
    Training training(batches, options, trial.model, trial.seed);
    Train(training, trial, on_step);
    return Validated(training.model(), batches);
  };
  contest.report = [&batches, &options, blocks](const Trial& trial, const OnStep& on_step) {
    return Report(batches, options, blocks, trial, on_step);
  };
  contest.step_seconds = [&batches, &options](const SizedContender& model) { return StepSeconds(batches, options, model); };
  return contest;
}

}  // namespace heed::lab
