#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "heed/error.h"
#include "heed/nn/safetensors.h"
#include "lab/data/corpus.h"
#include "lab/data/ngrams.h"
#include "lab/report/figure.h"
#include "lab/report/file.h"
#include "lab/report/printable.h"
#include "lab/study/study.h"
#include "lab/training/course.h"
#include "lab/training/evaluation.h"
#include "lab/training/fit.h"
#include "lab/training/initialisation.h"
#include "lab/training/kept_counts.h"
#include "lab/training/language_model.h"
#include "lab/training/run_folder.h"
#include "lab/training/sequence_model.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;
using Json = nlohmann::ordered_json;
using Blocks = std::vector<std::vector<int32_t>>;

// What the tasks of a text share.
struct StudiedText {
  TextParts parts;
  TextIdentity identity;
  std::string beginning;
  ObserveModel observe;
  std::vector<CountedText> counted;  // once a task has asked for it
};

int64_t Characters(const Blocks& blocks) {
  int64_t characters = 0;
  for (const std::vector<int32_t>& block : blocks) characters += std::ssize(block);
  return characters;
}

// Block by block, in windows of `length` characters, each with at least half of them before it: at the start of a window a
// model knows nothing of what counting knows.
std::vector<double> BlockLosses(LanguageModel& model, const Blocks& blocks, int64_t length) {
  std::vector<double> losses;
  losses.reserve(blocks.size());
  for (const std::vector<int32_t>& block : blocks)
    losses.push_back(Evaluate(model, block, length, {}, nullptr, length / 2).loss);
  return losses;
}

// A model that predicts characters, and the windows that it is trained on.
class TextLearner : public StudyLearner {
 public:
  TextLearner(const StudiedText& text, const TrainOptions& options) : text_(text), random_(options.seed) {
    BuildSeeded(options.seed, [&] { model_ = LanguageModel(options.model, text.parts.vocabulary); });
    windows_ = {options.model.objective, options.model.context, options.batch, model_->mask_symbol()};
  }

  torch::nn::Module& module() override { return *model_; }
  at::Tensor NextLoss() override { return model_->Loss(RandomBatch(text_.parts.train, windows_, random_)); }
  ValidationLoss Validate() override {
    ValidationLoss loss;
    loss.blocks.reserve(text_.parts.validation.size());
    for (const std::vector<int32_t>& block : text_.parts.validation) loss.blocks.push_back(Evaluate(model_, block).loss);
    loss.mean = MeanOf(loss.blocks);
    return loss;
  }

  Outcome Measured() override {
    Outcome outcome;
    for (const int64_t multiple : kLengthMultiples) {
      const int64_t length = multiple * windows_.context;
      outcome.values.push_back(NAN);
      if (length > model_->longest()) continue;
      std::vector<double> losses = BlockLosses(model_, text_.parts.test, length);
      outcome.values.back() = MeanOf(losses);
      (multiple == 1 ? outcome.blocks : outcome.longer[length]) = std::move(losses);
    }
    if (text_.observe) outcome.more = text_.observe(model_);
    return outcome;
  }

 private:
  const StudiedText& text_;
  LanguageModel model_{nullptr};
  WindowOptions windows_;
  Random random_;
};

std::string CountingName(int64_t order) {
  if (order == 1) return "frequencies of characters";
  return order == 2 ? "counting pairs of characters" : fmt::format("counting runs of {} characters", order);
}

void RequireEqual(const Models& models) {
  const auto [least, most] = std::ranges::minmax_element(models, {}, &SizedContender::parameters);
  if (static_cast<double>(most->parameters) <= (1.0 + kLargestDeviation) * static_cast<double>(least->parameters)) return;
  throw InvalidArgument("width: no feed-forward width makes the parameters equal within 5 %: " + least->Label() + " has " +
                        std::to_string(least->parameters) + ", " + most->Label() + " " + std::to_string(most->parameters) +
                        "; choose a larger width or a shorter context");
}

// The blocks that are looked at beside training, by their first character.
std::string SplitCsv(const TextParts& parts) {
  CsvText csv;
  csv.Row("part", "first", "characters");
  for (const int64_t first : parts.validation_at) csv.Row("validation", first, parts.block);
  for (const int64_t first : parts.test_at) csv.Row("test", first, parts.block);
  return csv.text();
}

class TextTask : public StudyTask {
 public:
  TextTask(std::shared_ptr<StudiedText> text, const StudyOptions& options, Objective objective)
      : StudyTask(options), text_(std::move(text)), objective_(objective) {
    const bool causal = objective == Objective::kCausal;
    id = ToString(objective);
    question = causal ? StudyQuestion{"next character", "Predicting the next character", "to predict the next character", {}}
                      : StudyQuestion{"hidden characters", "Filling in hidden characters", "to fill in hidden characters",
                                      TellStudy()("note hidden")};
    models = PlanModels(options, objective, text_->parts.vocabulary);
    settings = RunSettingsOf(FieldsOf(options_));
    columns = TextColumns(options);
    simple_loss = std::log(text_->parts.vocabulary.size());
    weights.assign(text_->parts.test.size(), 1.0);  // blocks are equally long
    validation_weights.assign(text_->parts.validation.size(), 1.0);
  }

  std::vector<Baseline> Baselines(int /*threads*/) const override {
    const TextParts& parts = text_->parts;
    const bool causal = objective_ == Objective::kCausal;
    if (text_->counted.empty()) text_->counted = CountText(parts.train, parts.vocabulary.size(), parts.validation, parts.test);
    const auto baseline = [](const std::string& name, const CountedText& counted) {
      return Baseline{.name = name, .blocks = counted.losses, .loss = MeanOf(counted.losses), .validation = counted.validation};
    };
    std::vector<Baseline> baselines;
    for (const CountedText& counted : text_->counted) {
      if (!causal && counted.order > 1) continue;  // characters before a hidden one may be hidden, too
      baselines.push_back(baseline(CountingName(counted.order), counted));
      baselines.back().looks = counted.order > 1;
      if (!causal) continue;
      baselines.back().kept = {"counts", {{"order", counted.order}, {"discount", counted.discount}}};
    }
    if (!causal) {
      baselines.push_back(baseline("counting both neighbours", CountGaps(parts.train, parts.vocabulary.size(), parts.validation,
                                                                         parts.test, options_.context)));
    }
    return baselines;
  }

  void KeepModel(const Entry& entry, const Outcome& run, const std::filesystem::path& weights,
                 const std::filesystem::path& folder) const override {
    const Trial trial{entry.model, run.best_steps, entry.rate, options_.seed};
    nlohmann::ordered_json reached = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (std::isfinite(run.values[i]) && columns[i].at == options_.context) reached["loss"] = run.values[i];
    }
    const RunFolder kept(folder);
    WriteFile(folder / "split.csv", SplitCsv(text_->parts));
    std::filesystem::remove(kept.config());  // never are there settings beside the weights of another model
    nn::WriteSafetensors(kept.model().string(), nn::ReadSafetensors(weights.string()).tensors,
                         {{"format", "pt"}, {"step", std::to_string(run.best_steps)}});
    kept.WriteConfig({OptionsOf(trial), text_->parts.vocabulary, text_->identity, /*threads=*/1, reached});
  }

  void KeepBaseline(const Baseline& baseline, const std::filesystem::path& folder) const override {
    const Json& settings = baseline.kept.settings;
    const TextIdentity& text = text_->identity;
    WriteFile(folder / "split.csv", SplitCsv(text_->parts));
    WriteCounts({baseline.name,
                 settings.at("order"),
                 settings.at("discount"),
                 text_->parts.vocabulary,
                 text_->parts.train,
                 {{"text", {{"name", text.name}, {"characters", text.characters}, {"fingerprint", text.fingerprint}}}},
                 {{"loss", baseline.loss}}},
                folder);
  }

 private:
  std::unique_ptr<StudyLearner> LearnerOf(const Trial& trial) const override {
    return std::make_unique<TextLearner>(*text_, OptionsOf(trial));
  }

  TrainOptions OptionsOf(const Trial& trial) const {
    TrainOptions train = TrainingOf(options_, trial.steps, trial.rate, trial.seed);
    train.model = ModelOf(options_, objective_, trial.model, trial.model.ffn_width);
    return train;
  }

  std::shared_ptr<StudiedText> text_;
  Objective objective_;
};

DataFacts FactsOf(const StudiedText& studied, const StudyOptions& options) {
  const TextIdentity& identity = studied.identity;
  const TextParts& parts = studied.parts;
  const int64_t validation = Characters(parts.validation), test = Characters(parts.test);
  const Prose& tell = TellStudy();
  return {.name = identity.name,
          .fingerprint = identity.fingerprint,
          .json = {{"kind", "text"},
                   {"name", identity.name},
                   {"characters", identity.characters},
                   {"fingerprint", identity.fingerprint},
                   {"vocabulary", parts.vocabulary.size()},
                   {"block", parts.block},
                   {"training", parts.train.size()},
                   {"validation", validation},
                   {"test", test}},
          .about = tell("text about", "name"_a = identity.name, "characters"_a = identity.characters,
                        "different"_a = parts.vocabulary.size()),
          .models = tell("text models", "layers"_a = options.layers, "width"_a = options.width, "context"_a = options.context,
                         "batch"_a = options.batch),
          .parts = tell("text parts", "name"_a = identity.name, "block"_a = parts.block, "validation"_a = validation,
                        "test"_a = test),
          .drift = {},
          .blocks = "these blocks",
          .beginning = studied.beginning,
          .split = SplitCsv(parts)};
}

}  // namespace

ModelOptions ModelOf(const StudyOptions& options, Objective objective, const Contender& contender, int64_t ffn_width) {
  ModelOptions model;
  model.encoder = contender.encoder;
  model.position = contender.position;
  model.objective = objective;
  model.layers = options.layers;
  model.heads = options.heads;
  model.width = options.width;
  model.context = options.context;
  model.ffn_width = ffn_width;
  return model;
}

Models PlanModels(const StudyOptions& options, Objective objective, const Vocabulary& vocabulary) {
  const auto count = [&](const Contender& contender, int64_t ffn_width) {
    return ParameterCount(*LanguageModel(ModelOf(options, objective, contender, ffn_width), vocabulary));
  };
  Models models = EqualContenders(options.encoders, options.positions, options.width, 4 * options.width, count);
  RequireEqual(models);
  return models;
}

std::vector<Column> TextColumns(const StudyOptions& options) {
  const Measure loss = {
      .name = "loss", .label = "Loss on the test part (nats per character)", .phrase = "{} nats per character"};
  const Measure validation = {.name = "validation_loss", .label = "Loss on the validation part (nats per character)"};
  std::vector<Column> columns;
  for (const int64_t multiple : kLengthMultiples)
    columns.push_back({loss, multiple * options.context, /*optional=*/multiple > 1});
  columns.push_back({validation});
  return columns;
}

Subject SubjectOf(const Text& text, const StudyOptions& options, const ObserveModel& observe) {
  Validate(options);
  auto studied = std::make_shared<StudiedText>();
  studied->observe = observe, studied->identity = Identify(text);
  studied->beginning = EncodeUtf8(text.characters.substr(0, std::min<std::size_t>(12, text.characters.find(U'\n'))));
  TextParts& parts = studied->parts;
  parts = SplitText(text, kLengthMultiples[std::size(kLengthMultiples) - 1] * options.context);
  parts.Thin(options.validation, options.test);
  Subject subject{text.path.empty() ? "" : ShellWord(text.path), FactsOf(*studied, options), {}, {}};
  subject.settings = {{"text", {{"characters", std::ssize(text.characters)}, {"fingerprint", subject.facts.fingerprint}}},
                      {"block", parts.block},
                      {"length_multiples", kLengthMultiples},
                      {"initial_deviation", InitialDeviation(options.width)}};
  for (const std::string& objective : options.objectives)
    subject.tasks.push_back(std::make_unique<TextTask>(studied, options, ParseObjective(objective)));
  subject.tasks.front()->keeps = "model";
  return subject;
}

}  // namespace heed::lab
