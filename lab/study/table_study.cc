#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/core.h>

#include "heed/nn/safetensors.h"
#include "lab/data/view.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/series/baselines.h"
#include "lab/series/batches.h"
#include "lab/series/kept_model.h"
#include "lab/study/study.h"
#include "lab/training/fit.h"
#include "lab/training/interrupt.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;
using Json = nlohmann::ordered_json;

at::Tensor Loss(const at::Tensor& answers, const SeriesBatch& batch, at::Reduction::Reduction reduction) {
  if (!batch.classes.empty()) return at::cross_entropy_loss(answers, View(batch.classes, {answers.size(0)}), {}, reduction);
  return at::mse_loss(answers, View(batch.values, {answers.size(0), answers.size(1)}), reduction);
}

// A model of a table, and its training step by step: runs of one seed see the same sequences in the same order, whatever the
// model.
class TableLearner : public StudyLearner {
 public:
  TableLearner(const SeriesBatches& batches, const SequenceModelOptions& model, uint64_t seed)
      : batches_(batches), random_(seed) {
    const at::Tensor scales = batches.form().Forecasts() ? LevelScales(batches) : at::Tensor();
    BuildSeeded(seed, [&] { network_.emplace(model, scales); });
  }

  torch::nn::Module& module() override { return network_->module(); }
  at::Tensor NextLoss() override {
    batch_ = batches_.Draw(random_);
    return Loss(network_->Answers(batches_.form(), batch_), batch_, at::Reduction::Mean);
  }

  LossSums Tallied(const std::vector<SeriesWindow>& windows) {
    const at::NoGradGuard no_grad;
    LossSums tally;
    batches_.ForEach(windows, [&](const SeriesBatch& batch) {
      if (Interrupted()) throw Interruption("interrupted during an evaluation");
      const at::Tensor answers = network_->Answers(batches_.form(), batch);
      tally.loss += batches_.form().error_scale() * Loss(answers, batch, at::Reduction::Sum).item<double>();
      tally.answers += static_cast<double>(batch.classes.empty() ? batch.values.size() : batch.classes.size());
      if (!batch.classes.empty())
        tally.right += answers.argmax(1).eq(View(batch.classes, {answers.size(0)})).sum().item<double>();
    });
    RequireFinite("evaluation", "the loss", tally.loss);
    return tally;
  }

  double loss_unit() const override { return batches_.form().error_scale(); }
  ValidationLoss Validate() override {
    ValidationLoss loss;
    loss.mean = Over(batches_.ValidationBlocks(), loss.blocks).loss;
    return loss;
  }

  Outcome Measured() override {
    Outcome outcome;
    const LossSums all = Over(batches_.TestBlocks(), outcome.blocks);
    outcome.values.push_back(all.loss);
    if (batches_.data().Classifies()) outcome.values.push_back(all.right);
    return outcome;
  }

 private:
  LossSums Over(const std::vector<std::vector<SeriesWindow>>& blocks, std::vector<double>& losses) {
    return MeansOver(
        blocks, [this](const std::vector<SeriesWindow>& windows) { return Tallied(windows); }, losses);
  }

  const SeriesBatches& batches_;
  std::optional<SeriesNetwork> network_;
  Random random_;
  SeriesBatch batch_;  // the tensors of a step are views of it
};

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

class TableTask : public StudyTask {
 public:
  // place: among the targets of the study, from 1.
  TableTask(const SeriesData& data, const StudyOptions& options, std::size_t place)
      : StudyTask(options), batches_(data, CutOf(options)) {
    const std::string behind = place == 1 ? "" : fmt::format("-{}", place);
    id = data.goal + behind, keeps = "model" + behind;
    const char* verb = data.Forecasts() ? "forecast" : "predict";
    question = {place == 1 ? id : fmt::format("{} of {}", data.goal, ShownName(data.target)),
                Sentence(fmt::format("{}ing '{}'", verb, ShownName(data.target))),
                fmt::format("to {} '{}'", verb, ShownName(data.target)),
                place == 1 ? "" : TellStudy()("table further", "folder"_a = keeps)};
    models = EqualContenders(options.encoders, options.positions, options.width, 2 * options.width,
                             [&](const Contender& contender, int64_t ffn_width) {
                               return ParameterCount(*SequenceModel(ModelOf(contender, ffn_width)));
                             });
    settings = RunSettingsOf(FieldsOf(options_));
    columns = TableColumns(data.Classifies(), data.target);
    simple_loss = SimpleAnswer(batches_).validation;
    for (const std::vector<SeriesWindow>& block : batches_.TestBlocks()) weights.push_back(AnswersIn(block));
    for (const std::vector<SeriesWindow>& block : batches_.ValidationBlocks()) validation_weights.push_back(AnswersIn(block));
  }

  const SeriesBatches& batches() const { return batches_; }

  std::vector<Baseline> Baselines(int threads) const override { return SeriesBaselines(batches_, threads); }

  void KeepModel(const Entry& entry, const Outcome& run, const std::filesystem::path& weights,
                 const std::filesystem::path& folder) const override {
    KeptModel model{.name = entry.model.Label(), .form = batches_.form(), .method = {}};
    model.network = ModelOf(entry.model, entry.model.ffn_width);
    model.method.arrays = nn::ReadSafetensors(weights.string()).tensors;
    if (model.form.Forecasts()) model.method.arrays["levels"] = LevelScales(batches_);
    model.training = {{"steps", run.best_steps}, {"rate", entry.rate}, {"seed", options_.seed}, {"batch", options_.batch}};
    for (std::size_t i = 0; i + 1 < columns.size(); ++i) model.reached[columns[i].measure.name] = run.values[i];
    Write(std::move(model), folder);
  }

  void KeepBaseline(const Baseline& baseline, const std::filesystem::path& folder) const override {
    KeptModel model{.name = baseline.Label(), .form = batches_.form(), .method = baseline.kept};
    model.reached["loss"] = baseline.loss;
    if (model.form.Classifies()) model.reached["accuracy"] = baseline.accuracy;
    Write(std::move(model), folder);
  }

 private:
  std::unique_ptr<StudyLearner> LearnerOf(const Trial& trial) const override {
    return std::make_unique<TableLearner>(batches_, ModelOf(trial.model, trial.model.ffn_width), trial.seed);
  }

  void Write(KeptModel model, const std::filesystem::path& folder) const {
    Calibrate(model, batches_);
    model.training["data"] = {{"name", batches_.data().name}, {"fingerprint", batches_.data().fingerprint}};
    WriteFile(folder / "split.csv", SplitCsv(batches_));
    WriteModel(model, folder);
  }

  SequenceModelOptions ModelOf(const Contender& contender, int64_t ffn_width) const {
    SequenceModelOptions model;
    model.encoder = contender.encoder;
    model.position = contender.position;
    model.causal = batches_.data().Forecasts();
    model.features = batches_.form().width() + (model.causal ? std::ssize(batches_.data().features) : 0);  // see WithLevels
    model.outputs = batches_.form().outputs();
    model.pooled = batches_.pooled();
    model.layers = options_.layers, model.heads = options_.heads, model.width = options_.width;
    model.ffn_width = ffn_width;
    model.longest = batches_.form().steps();
    return model;
  }

  // How many numbers, or classes, are answered.
  double AnswersIn(const std::vector<SeriesWindow>& block) const {
    const SeriesForm& form = batches_.form();
    return static_cast<double>(form.Answers(block) * (form.Classifies() ? 1 : form.outputs()));
  }

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
  std::vector<std::string> read = data.features;
  std::ranges::move(data.marks.Categories(), std::back_inserter(read));
  std::string text = tell("table about", "name"_a = data.name, "sequences"_a = Several(std::ssize(data.sequences), "sequence"),
                          "lengths"_a = LengthsOf(data),
                          "steps"_a = data.sequences.size() == 1 ? "" : fmt::format(", {} in all", data.Steps()),
                          "features"_a = Several(std::ssize(read), "feature"), "names"_a = Join(read));
  for (const std::string& note : data.notes) text += " " + note;
  if (data.Forecasts()) {
    return text + " " +
           tell("table forecast", "target"_a = data.target, "context"_a = options.context,
                "values"_a = options.horizon == 1 ? "value" : fmt::format("{} values", options.horizon));
  }
  text += " " + tell("table target", "target"_a = data.target, "what"_a = data.Classifies() ? "a class" : "a number",
                     "of"_a = data.each_step ? "every step" : "the whole sequence");
  if (!data.classes.empty())
    text += " " + tell("table classes", "count"_a = data.classes.size(), "names"_a = Join(data.classes));
  return text;
}

std::string AboutModels(const SeriesBatches& batches, const StudyOptions& options) {
  const Prose& tell = TellStudy();
  const SeriesData& data = batches.data();
  const bool forecasts = data.Forecasts(), cut = data.each_step && batches.form().steps() < data.Longest();
  std::string text = tell("table models", "layers"_a = options.layers == 1 ? "one layer" : Several(options.layers, "layer"),
                          "width"_a = options.width, "head"_a = data.each_step ? "at every step" : "on the mean over the steps",
                          "batch"_a = options.batch, "rows"_a = forecasts || cut ? "windows" : "sequences");
  if (cut && !forecasts) text += " " + tell("table windows", "steps"_a = batches.form().steps());
  text += " " + tell(forecasts ? "table changes" : "table standardised");
  if (data.has_times) text += " " + tell("table times");
  const std::vector<std::string>& periods = batches.form().periods;
  return periods.empty() ? text : text + " " + tell("table calendar", "periods"_a = Join(periods));
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
  const std::size_t blocks = batches.TestBlocks().size();
  const bool given = data.sequences.front().parts.has_value();
  const bool cuts = CutsSequences(data);
  const char* parts = cuts ? "table parts in time" : "table parts";
  return {.name = data.name,
          .fingerprint = data.fingerprint,
          .json = {{"kind", "table"},
                   {"name", data.name},
                   {"fingerprint", data.fingerprint},
                   {"goal", data.goal},
                   {"target", data.target},
                   {"features", data.features},
                   {"gaps", data.marks.gaps},
                   {"texts", data.marks.Categories()},
                   {"notes", data.notes},
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
          .models = AboutModels(batches, options),
          .parts = TellStudy()(parts, "training"_a = batches.training_count(), "validation"_a = batches.validation_count(),
                               "test"_a = batches.test_count()) +
                   (given  ? " " + TellStudy()("table parts given")
                    : cuts ? ""
                           : " " + TellStudy()("table parts drawn")),
          .drift = DriftFinding(left),
          .blocks = blocks == 1 ? "the test part, which makes a single group"
                                : fmt::format("{} consecutive groups of the test part", blocks),
          .beginning = {},
          .split = SplitCsv(batches)};
}

}  // namespace

SeriesCut CutOf(const StudyOptions& options) {
  return {options.batch, options.context, options.horizon, options.longest, options.validation_share};
}

std::vector<Column> TableColumns(bool classifies, const std::string& target) {
  const Measure nats = {.name = "loss", .label = "Loss on the test part (nats)", .phrase = "a loss of {} nats"};
  const Measure error = {.name = "loss",
                         .label = target.empty()
                                      ? "Mean squared error on the test part"
                                      : fmt::format("Mean squared error on the test part ({} squared)", ShownName(target)),
                         .phrase = "a mean squared error of {}",
                         .digits = 4,
                         .significant = true};
  const Measure accuracy = {.name = "accuracy", .label = "Accuracy", .phrase = "an accuracy of {}", .more_is_better = true};
  std::vector<Column> columns = {{classifies ? nats : error}};
  if (classifies) columns.push_back({accuracy});
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
  return SubjectOf(std::span(&data, 1), words, options);
}

Subject SubjectOf(std::span<const SeriesData> data, const std::string& words, const StudyOptions& options) {
  Validate(options);
  Subject subject{words, {}, {}, {}};
  std::vector<std::string> targets;
  for (const SeriesData& one : data) {
    auto task = std::make_unique<TableTask>(one, options, subject.tasks.size() + 1);
    if (subject.tasks.empty()) subject.facts = FactsOf(task->batches(), options);
    subject.tasks.push_back(std::move(task));
    targets.push_back(one.target);
  }
  if (targets.size() > 1) subject.facts.about += " " + TellStudy()("table targets", "names"_a = Join(targets));
  const SeriesData& first = data.front();
  subject.settings = {{"data", first.fingerprint}, {"target", Join(targets)},  {"features", first.features},
                      {"goal", first.goal},        {"times", first.has_times}, {"sequences", first.sequences.size()}};
  if (first.marks.count() > 0)
    subject.settings["gaps"] = first.marks.gaps, subject.settings["texts"] = first.marks.Categories();
  return subject;
}

}  // namespace heed::lab
