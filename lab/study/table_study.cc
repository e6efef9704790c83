#include "lab/study/table_study.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "heed/safetensors.h"
#include "lab/report/csv_text.h"
#include "lab/series/baselines.h"
#include "lab/series/levels.h"
#include "lab/study/course_training.h"
#include "lab/study/prose.h"
#include "lab/study/study.h"
#include "lab/training/fit.h"
#include "lab/training/interrupt.h"
#include "lab/training/sequence_model.h"
#include "lab/training/step.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;
using Json = nlohmann::ordered_json;

// A tensor over the vector's own memory, which must outlive it.
template <class T>
at::Tensor View(const std::vector<T>& values, at::IntArrayRef shape) {
  return at::from_blob(const_cast<T*>(values.data()), shape, at::CppTypeToScalarType<T>::value);
}

at::Tensor Loss(const at::Tensor& answers, const SeriesBatch& batch, at::Reduction::Reduction reduction) {
  if (!batch.classes.empty()) return at::cross_entropy_loss(answers, View(batch.classes, {answers.size(0)}), {}, reduction);
  return at::mse_loss(answers, View(batch.values, {answers.size(0), answers.size(1)}), reduction);
}

// Sums over the answers of some windows.
struct Tally {
  double loss = 0, right = 0, count = 0;
};

// A model of a table, and its training step by step: runs of one seed see the same sequences in the same order, whatever the
// model.
class TableLearner : public Learner {
 public:
  TableLearner(const SeriesBatches& batches, const SequenceModelOptions& model, uint64_t seed)
      : batches_(batches), random_(seed) {
    BuildSeeded(seed, [&] { network_ = SequenceModel(model); });
    if (batches.data().goal == SeriesGoal::kForecast) levels_.emplace(batches);
  }

  torch::nn::Module& module() override { return *network_; }
  at::Tensor NextLoss() override {
    batch_ = batches_.Draw(random_);
    return Loss(Answers(batch_), batch_, at::Reduction::Mean);
  }

  Tally Tallied(const std::vector<SeriesWindow>& windows) {
    const at::NoGradGuard no_grad;
    Tally tally;
    batches_.ForEach(windows, [&](const SeriesBatch& batch) {
      if (Interrupted()) throw Interruption("interrupted during an evaluation");
      const at::Tensor answers = Answers(batch);
      tally.loss += batches_.error_scale() * Loss(answers, batch, at::Reduction::Sum).item<double>();
      tally.count += static_cast<double>(batch.classes.empty() ? batch.values.size() : batch.classes.size());
      if (!batch.classes.empty())
        tally.right += answers.argmax(1).eq(View(batch.classes, {answers.size(0)})).sum().item<double>();
    });
    RequireFinite("evaluation", "the loss", tally.loss);
    return tally;
  }

  double loss_unit() const override { return batches_.error_scale(); }
  ValidationLoss Validate() override {
    ValidationLoss loss;
    loss.mean = Over(batches_.ValidationBlocks(), loss.blocks).loss;
    return loss;
  }

  Outcome Measured() {
    Outcome outcome;
    const Tally all = Over(batches_.TestBlocks(), outcome.blocks);
    outcome.values.push_back(all.loss);
    if (batches_.data().goal == SeriesGoal::kClassification) outcome.values.push_back(all.right);
    return outcome;
  }

 private:
  // The loss on each block; the means over all answers.
  Tally Over(const std::vector<std::vector<SeriesWindow>>& blocks, std::vector<double>& losses) {
    Tally all;
    for (const std::vector<SeriesWindow>& block : blocks) {
      const Tally tally = Tallied(block);
      losses.push_back(tally.loss / tally.count);
      all.loss += tally.loss, all.right += tally.right, all.count += tally.count;
    }
    all.loss /= all.count, all.right /= all.count;
    return all;
  }

  // [scored, outputs].
  at::Tensor Answers(const SeriesBatch& batch) {
    const bool padded = std::ranges::any_of(batch.lengths, [&](int64_t n) { return n != batch.steps; });
    const at::Tensor X = View(batch.features, {batch.rows, batch.steps, batches_.width()});
    const at::Tensor lengths = padded ? View(batch.lengths, {batch.rows}) : at::Tensor();
    const at::Tensor times = batches_.data().has_times ? View(batch.times, {batch.rows, batch.steps}) : at::Tensor();
    at::Tensor Y = network_->forward(levels_ ? (*levels_)(X) : X, lengths, times);
    if (batches_.pooled()) return Y;
    return Y.flatten(0, 1).index_select(0, View(batch.scored, {std::ssize(batch.scored)}));
  }

  const SeriesBatches& batches_;
  SequenceModel network_{nullptr};
  std::optional<RelativeLevels> levels_;  // of a forecast
  Random random_;
  SeriesBatch batch_;  // the tensors of a step are views of it
};

class TableTask : public StudyTask {
 public:
  TableTask(const SeriesData& data, const StudyOptions& options) : options_(options), batches_(data, CutOf(options)) {
    id = ToString(data.goal);
    const char* verb = data.goal == SeriesGoal::kClassification ? "tell"
                       : data.goal == SeriesGoal::kRegression   ? "estimate"
                                                                : "foretell";
    question = {id,
                Sentence(fmt::format("{}ing {}", verb, ShownName(data.target))),
                fmt::format("to {} {}", verb, ShownName(data.target)),
                {}};
    models = EqualContenders(options.encoders, options.positions, options.width, 2 * options.width,
                             [&](const Contender& contender, int64_t ffn_width) {
                               return ParameterCount(*SequenceModel(ModelOf(contender, ffn_width)));
                             });
    settings = RunSettingsOf(FieldsOf(options_));
    columns = TableColumns(data.goal);
    simple_loss = batches_.SimpleAnswer(batches_.ValidationBlocks()).loss;
    for (const std::vector<SeriesWindow>& block : batches_.TestBlocks()) weights.push_back(AnswersIn(block));
    for (const std::vector<SeriesWindow>& block : batches_.ValidationBlocks()) validation_weights.push_back(AnswersIn(block));
  }

  const SeriesBatches& batches() const { return batches_; }

  std::unique_ptr<Training> Begin(const Trial& trial) const override {
    auto learner = std::make_unique<TableLearner>(batches_, ModelOf(trial.model, trial.model.ffn_width), trial.seed);
    TableLearner* const measured = learner.get();
    return std::make_unique<CourseTraining>(std::move(learner), TrainingOf(options_, trial.steps, trial.rate, trial.seed),
                                            [measured] { return measured->Measured(); });
  }

  double StepSeconds(const SizedContender& contender) const override {
    TableLearner learner(batches_, ModelOf(contender, contender.ffn_width), options_.seed);
    return lab::StepSeconds(learner, TrainingOf(options_, 1, options_.rates.front(), options_.seed));
  }

  std::vector<Baseline> Baselines(int threads) const override { return SeriesBaselines(batches_, threads); }

 private:
  SequenceModelOptions ModelOf(const Contender& contender, int64_t ffn_width) const {
    SequenceModelOptions model;
    model.encoder = contender.encoder;
    model.position = contender.position;
    model.causal = batches_.data().goal == SeriesGoal::kForecast;
    model.features = batches_.width() + (model.causal ? batches_.data().Width() : 0);  // see RelativeLevels
    model.outputs = batches_.outputs();
    model.pooled = batches_.pooled();
    model.layers = options_.layers, model.heads = options_.heads, model.width = options_.width;
    model.ffn_width = ffn_width;
    model.longest = batches_.longest();
    return model;
  }

  double AnswersIn(const std::vector<SeriesWindow>& block) const {
    double answers = 0;
    batches_.ForEach(block, [&](const SeriesBatch& batch) {
      answers += static_cast<double>(batch.classes.empty() ? batch.values.size() : batch.classes.size());
    });
    return answers;
  }

  StudyOptions options_;
  SeriesBatches batches_;
};

std::string Several(int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// "8 to 12 steps".
std::string LengthsOf(const SeriesData& data) {
  int64_t shortest = data.Longest();
  for (const SeriesSequence& sequence : data.sequences) shortest = std::min(shortest, sequence.steps);
  return shortest == data.Longest() ? fmt::format("{}", shortest) : fmt::format("{} to {}", shortest, data.Longest());
}

std::string About(const SeriesData& data, const StudyOptions& options) {
  const Prose& tell = TellStudy();
  std::string text = tell("table about", "name"_a = data.name, "sequences"_a = Several(std::ssize(data.sequences), "sequence"),
                          "lengths"_a = LengthsOf(data), "steps"_a = data.Steps(),
                          "features"_a = Several(data.Width(), "feature"), "names"_a = Join(data.features));
  if (data.goal == SeriesGoal::kForecast) {
    return text + " " +
           tell("table forecast", "target"_a = data.target, "context"_a = options.context,
                "values"_a = options.horizon == 1 ? "value" : fmt::format("{} values", options.horizon));
  }
  text += " " + tell("table target", "target"_a = data.target,
                     "what"_a = data.goal == SeriesGoal::kClassification ? "a class" : "a number",
                     "of"_a = data.each_step ? "every step" : "the whole sequence");
  if (!data.classes.empty())
    text += " " + tell("table classes", "count"_a = data.classes.size(), "names"_a = Join(data.classes));
  return text;
}

std::string AboutModels(const SeriesData& data, const StudyOptions& options) {
  const Prose& tell = TellStudy();
  const bool forecasts = data.goal == SeriesGoal::kForecast;
  std::string text = tell("table models", "layers"_a = options.layers == 1 ? "one layer" : Several(options.layers, "layer"),
                          "width"_a = options.width, "head"_a = data.each_step ? "at every step" : "on the mean over the steps",
                          "batch"_a = options.batch, "rows"_a = forecasts ? "windows" : "sequences");
  text += " " + tell(forecasts ? "table changes" : "table standardised");
  return data.has_times ? text + " " + tell("table times") : text;
}

// How many steps of each sequence are in each part.
std::string SplitCsv(const SeriesBatches& batches) {
  CsvText csv;
  csv.Row("sequence", "training", "validation", "test");
  for (std::size_t s = 0; s < batches.parts().size(); ++s) {
    const SeriesSequence& sequence = batches.data().sequences[s];
    const auto [training, validation] = batches.parts()[s];
    csv.Row(sequence.id, training, validation - training, sequence.steps - validation);
  }
  return csv.text();
}

DataFacts FactsOf(const SeriesBatches& batches, const StudyOptions& options) {
  const SeriesData& data = batches.data();
  const std::vector<SeriesRange> left = RangesLeft(batches);
  Json ranges = Json::array();
  for (const SeriesRange& range : left) {
    ranges.push_back({{"column", range.column},
                      {"training", {range.low, range.high}},
                      {"test", {range.test_low, range.test_high}},
                      {"outside", range.outside}});
  }
  const bool given = data.sequences.front().parts.has_value();
  const char* parts = data.goal == SeriesGoal::kForecast ? "table parts in time" : "table parts";
  return {.name = data.name,
          .fingerprint = data.fingerprint,
          .json = {{"kind", "table"},
                   {"name", data.name},
                   {"fingerprint", data.fingerprint},
                   {"goal", ToString(data.goal)},
                   {"target", data.target},
                   {"features", data.features},
                   {"classes", data.classes},
                   {"times", data.has_times},
                   {"each_step", data.each_step},
                   {"sequences", data.sequences.size()},
                   {"steps", data.Steps()},
                   {"training", batches.training_count()},
                   {"validation", batches.validation_count()},
                   {"test", batches.test_count()},
                   {"left_range", std::move(ranges)}},
          .about = About(data, options),
          .models = AboutModels(data, options),
          .parts = TellStudy()(parts, "training"_a = batches.training_count(), "validation"_a = batches.validation_count(),
                               "test"_a = batches.test_count()) +
                   (given                                ? " " + TellStudy()("table parts given")
                    : data.goal == SeriesGoal::kForecast ? ""
                                                         : " " + TellStudy()("table parts drawn")),
          .drift = DriftFinding(left),
          .blocks = fmt::format("{} groups of the test part that follow one another", batches.TestBlocks().size()),
          .split = SplitCsv(batches)};
}

}  // namespace

SeriesCut CutOf(const StudyOptions& options) {
  return {options.batch, options.context, options.horizon, options.longest, options.validation_share};
}

std::vector<Column> TableColumns(SeriesGoal goal) {
  const Measure nats = {.name = "loss", .label = "Loss on the test part (nats)", .phrase = "a loss of {} nats"};
  const Measure error = {.name = "loss",
                         .label = "Mean squared error on the test part",
                         .phrase = "a mean squared error of {}",
                         .digits = 4,
                         .significant = true};
  const Measure accuracy = {.name = "accuracy", .label = "Accuracy", .phrase = "an accuracy of {}", .more_is_better = true};
  std::vector<Column> columns = {{goal == SeriesGoal::kClassification ? nats : error}};
  if (goal == SeriesGoal::kClassification) columns.push_back({accuracy});
  columns.push_back({{.name = "validation_loss", .label = "Loss on the validation part"}});
  return columns;
}

std::string DriftFinding(const std::vector<SeriesRange>& left) {
  constexpr std::size_t kMostColumns = 5;  // that are named
  const Prose& tell = TellStudy();
  if (left.empty()) return {};
  std::vector<std::string> columns;
  for (std::size_t i = 0; i < std::min(kMostColumns, left.size()); ++i) {
    const SeriesRange& range = left[i];
    columns.push_back(tell("drift of", "column"_a = range.column, "low"_a = range.low, "high"_a = range.high,
                           "test_low"_a = range.test_low, "test_high"_a = range.test_high, "percent"_a = 100 * range.outside));
  }
  if (left.size() > kMostColumns) columns.push_back(fmt::format("{} more columns", left.size() - kMostColumns));
  return tell("drift", "columns"_a = Join(columns));
}

Subject SubjectOf(const SeriesData& data, const std::string& words, const StudyOptions& options) {
  Validate(options);
  auto task = std::make_unique<TableTask>(data, options);
  Subject subject{words, FactsOf(task->batches(), options), {}, {}};
  subject.settings = {{"data", data.fingerprint},    {"target", data.target},   {"features", data.features},
                      {"goal", ToString(data.goal)}, {"times", data.has_times}, {"sequences", data.sequences.size()}};
  subject.tasks.push_back(std::move(task));
  return subject;
}

}  // namespace heed::lab
