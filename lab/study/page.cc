#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "lab/comparison/output.h"
#include "lab/depth/findings.h"
#include "lab/depth/output.h"
#include "lab/report/csv.h"
#include "lab/report/file.h"
#include "lab/report/html.h"
#include "lab/report/json.h"
#include "lab/study/figures.h"
#include "lab/study/findings.h"
#include "lab/study/study.h"
#include "lab/tasks/findings.h"
#include "lab/tasks/output.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

constexpr int64_t kBinaryLines = 8;

// A report that grows section by section, with the figures written to its folder.
class Page {
 public:
  Page(const StudyResult& result, std::filesystem::path folder)
      : result_(result),
        options_(result.options),
        folder_(std::move(folder)),
        report_("Which encoder, which notion of order?") {}

  void Conclude();
  void Describe();
  void Compare(Objective objective, const std::string& heading);
  void Lengthen();
  void Speed();
  void Positions();
  void Schemes();
  void SingleLayers();
  void DeepStacks();
  void Tasks();
  void Settings();
  void Write() { report_.Write(folder_ / "report.html"); }

 private:
  void Say(const std::string& text) {
    if (!text.empty()) report_.Paragraph(text);
  }
  void SayOf(const std::string& subject, const std::string& finding) {
    if (!finding.empty()) Say(subject + finding);
  }
  void Draw(const Figure& figure) { report_.Add(figure, WriteFigure(figure, folder_)); }

  const StudyResult& result_;
  const StudyOptions& options_;
  std::filesystem::path folder_;
  Report report_;
};

std::string SpreadInWords(const StudyOptions& options) {
  return options.seeds == 1 ? "one seed" : fmt::format("mean (least–greatest) of {} seeds", options.seeds);
}

Table LossTable(const StudyResult& result, Objective objective) {
  const StudyOptions& options = result.options;
  Table table{"Loss on validation text in nats per character, " + SpreadInWords(options), {"Model"}, {}};
  for (const int64_t multiple : kLengthMultiples) {
    table.header.push_back(fmt::format("{} characters ({}x)", multiple * options.context, multiple));
  }
  const std::vector<ModelResult>& models = ModelsOf(result, objective);
  for (const ModelResult* model : Ranked(models)) {
    std::vector<std::string> row = {model->model.Label()};
    for (std::size_t i = 0; i < std::size(kLengthMultiples); ++i) {
      row.push_back(model->Reaches(i) ? Cell(model->Loss(i), 3) : "n/a");
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table ParameterTable(const std::vector<ModelResult>& models) {
  Table table{"Feed-forward widths chosen so that the parameters are equal; counted on the built models",
              {"Model", "Feed-forward width", "Parameters", "Difference from the mean"},
              {}};
  double mean = 0;
  for (const ModelResult& model : models)
    mean += static_cast<double>(model.model.parameters) / static_cast<double>(models.size());
  for (const ModelResult& model : models) {
    const double percent = 100 * (static_cast<double>(model.model.parameters) / mean - 1);
    const double difference = std::round(10 * percent) / 10 + 0.0;  // no minus before a zero
    table.rows.push_back({model.model.Label(), std::to_string(model.model.ffn_width), std::to_string(model.model.parameters),
                          fmt::format("{:.1f} %", difference)});
  }
  return table;
}

// `name` says what a model stands for in this row.
template <class Name>
void AddGlance(const std::string& question, const std::vector<ModelResult>& models, const Name& name, Table& table) {
  const std::vector<const ModelResult*> ranked = Ranked(models);
  if (ranked.size() < 2) return;
  const Gap gap = GapBetween(*ranked[0], *ranked[1]);
  const char* certainty = models.front().runs.size() == 1 ? "one seed" : gap.agreed ? "every seed" : "a tie";
  table.rows.push_back({question, name(ranked[0]->model), Cell(ranked[0]->Loss(), 3), name(ranked[1]->model),
                        fmt::format("{:.3f}, {}", gap.loss.mean, certainty)});
}

Table GlanceTable(const StudyResult& result) {
  Table table{fmt::format("Best on validation text, windows of {} characters; loss in nats per character, {}",
                          result.options.context, SpreadInWords(result.options)),
              {"Question", "Best", "Loss", "Next best", "Behind by"},
              {}};
  const auto label = [](const StudyModel& model) { return model.Label(); };
  const auto scheme = [](const StudyModel& model) { return SchemeLabel(model.position); };
  AddGlance("Encoder, next character", OnePerEncoder(result.causal), label, table);
  AddGlance("Order in attention", Attending(result.causal), scheme, table);
  AddGlance("Encoder, hidden characters", OnePerEncoder(result.masked), label, table);
  AddGlance("Order in attention", Attending(result.masked), scheme, table);
  return table;
}

void Page::Conclude() {
  report_.Section("Conclusion");
  Say("A study of " + result_.text.name + ".");
  const Table glance = GlanceTable(result_);
  if (!glance.rows.empty()) report_.Add(glance);
  Say(OrderFinding(result_.masked, result_.baselines));
  Say(LengthFinding(result_.causal, options_));
  Say(SpeedFinding(result_.causal));
  if (result_.depth) Say(DepthConclusion(*result_.depth));
  if (result_.tasks) Say(TasksConclusion(*result_.tasks));
  Say("A loss in nats is the mean surprise at a character: less is better, and 0.69 nats less halve the number of characters "
      "that "
      "the model hesitates between. Small models after short training rank as they learn, not as they end: a longer budget may "
      "rank them otherwise.");
}

void Page::Describe() {
  report_.Section("The text and the models");
  Say(fmt::format(
      "{}: {} characters, {} different ones. Models train on the first nine tenths and are measured on {} characters "
      "of the rest.",
      result_.text.name, result_.text.characters, result_.vocabulary, result_.validation));
  Say(fmt::format(
      "Every model is the same but for what mixes the characters: an embedding, residual layers ({} of width "
      "{}) of a mixing and a feed-forward sublayer each, and a head. All see the "
      "same windows of {} characters, {} at a step, for {} steps (next character) and {} steps (hidden characters); {}.",
      options_.layers, options_.width, options_.context, options_.batch, options_.causal_steps, options_.masked_steps,
      options_.seeds == 1 ? "one run of each" : fmt::format("{} runs of each with different seeds", options_.seeds)));
  report_.Add(ParameterTable(result_.causal));
}

void Page::Compare(Objective objective, const std::string& heading) {
  report_.Section(heading);
  const std::vector<ModelResult>& models = ModelsOf(result_, objective);
  Say(objective == Objective::kCausal
          ? "The model sees the characters so far and predicts the next one."
          : "Some characters of a window are hidden (15 %), and the model fills them in from both sides.");
  SayOf("Encoders: ", RankingFinding(OnePerEncoder(models)));
  SayOf("Notions of order in attention: ", RankingFinding(Attending(models)));
  if (objective == Objective::kMasked) Say(OrderFinding(models, result_.baselines));
  Draw(LossFigure(result_, objective));
  report_.Add(LossTable(result_, objective));
  for (const Figure& figure : CurveFigures(result_, objective)) Draw(figure);
}

void Page::Lengthen() {
  if (Attending(result_.causal).empty()) return;
  report_.Section("Longer than in training");
  Say("The same text is cut into longer windows. More context helps a model that can use it; a scheme that meets positions it "
      "was "
      "not trained for loses. Which characters are hidden differs between lengths.");
  for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
    SayOf(objective == Objective::kCausal ? "Next character: " : "Hidden characters: ",
          LengthFinding(ModelsOf(result_, objective), options_));
    if (const auto figure = LengthFigure(result_, objective)) Draw(*figure);
  }
}

void Page::Speed() {
  report_.Section("Speed");
  Say(SpeedFinding(result_.causal));
  Draw(SpeedFigure(result_));
}

void Page::Positions() {
  report_.Section("Positions by themselves");
  const std::vector<Figure> figures = StudyPositionFigures();
  Say(PositionsFinding(result_.rotation, figures));
  for (const Figure& figure : figures) Draw(figure);
  Table numbers{"Binary numbers do the same with digits: the last changes at every number, the one before at every second",
                {"Number"},
                {}};
  for (const std::string& line : BinaryTable(kBinaryLines)) numbers.rows.push_back({line});
  report_.Add(numbers);
  const auto error = [](double value) { return fmt::format("{:.2e}", value); };
  report_.Add(Table{"Largest absolute errors of the emitted table",
                    {"Comparison", "Error"},
                    {{"table against angles in double precision", error(result_.rotation.table_error)},
                     {"row turned by a shift against the shifted row", error(result_.rotation.rotation_error)},
                     {"map fitted by least squares against the rotation", error(result_.rotation.least_squares_error)}}});
}

// What each scheme costs and brings with the next character as objective.
Table SchemeTableOf(const StudyResult& result) {
  const std::vector<ModelResult> models = Attending(result.causal);
  Table table{"Notions of order in attention, predicting the next character: loss in nats per character, " +
                  SpreadInWords(result.options),
              {"Scheme"},
              {}};
  for (const int64_t multiple : kLengthMultiples) {
    table.header.push_back(fmt::format("At {} characters", multiple * result.options.context));
  }
  table.header.insert(table.header.end(), {"Thousand characters/s", "Feed-forward width"});
  for (const ModelResult& model : models) {
    std::vector<std::string> row = {SchemeLabel(model.model.position)};
    for (std::size_t i = 0; i < std::size(kLengthMultiples); ++i) {
      row.push_back(model.Reaches(i) ? Cell(model.Loss(i), 3) : "n/a");
    }
    const Spread speed = model.TokensPerSecond();
    row.push_back(Cell({speed.mean / 1000, speed.low / 1000, speed.high / 1000}, 1));
    row.push_back(std::to_string(model.model.ffn_width));
    table.rows.push_back(std::move(row));
  }
  return table;
}

void Page::Schemes() {
  if (Attending(result_.causal).size() < 2) return;
  report_.Section("Notions of order side by side");
  Say("What a scheme says of a distance, what it is worth within and beyond the training length, and what it costs: the time "
      "of a "
      "step, and parameters that the feed-forward sublayer then does not get.");
  report_.Add(SchemeTableOf(result_));
  for (const Figure& figure : SchemeFigures(result_)) Draw(figure);
}

void Page::SingleLayers() {
  report_.Section("Single layers: operations, steps, paths");
  Say(ComparisonFinding(result_.comparison));
  AddComparison(result_.comparison, folder_, report_);
}

void Page::DeepStacks() {
  if (!result_.depth) return;
  report_.Section("Deep stacks");
  Say("What happens to tokens, attention and gradients on their way through many layers: in stacks as they start, and in "
      "stacks trained for a few steps.");
  AddDepth(*result_.depth, CommandOf(options_), folder_, report_);
}

void Page::Tasks() {
  if (!result_.tasks) return;
  report_.Section("Tasks whose answers are known");
  const TaskOptions& tasks = result_.tasks->options;
  Say(
      fmt::format("Not of this text: small models ({} wide) learn synthetic tasks at {} steps, and are then measured at other "
                  "lengths too.",
                  tasks.width, tasks.length));
  AddTasks(*result_.tasks, CommandOf(options_), folder_, report_);
}

void Page::Settings() {
  report_.Section("Settings");
  const Environment& environment = result_.environment;
  std::string targets;
  for (const std::string& target : environment.simd_targets) targets += (targets.empty() ? "" : ", ") + target;
  const TrainOptions training = TrainingOf(options_, result_.causal.front().model, options_.seed);
  report_.Add(Table{
      "Every number of this page is in study.json, the runs one by one in runs.csv",
      {"Setting", "Value"},
      {{"text", fmt::format("{}, fingerprint {}", result_.text.name, result_.text.fingerprint)},
       {"budget", options_.budget},
       {"runs of a model", SeedsOf(options_.seed, options_.seeds)},
       {"layers, heads, width", fmt::format("{}, {}, {}", options_.layers, options_.heads, options_.width)},
       {"context, batch", fmt::format("{}, {}", options_.context, options_.batch)},
       {"steps", fmt::format("{} next character, {} hidden characters", options_.causal_steps, options_.masked_steps)},
       {"optimiser", fmt::format("AdamW, learning rate {:g} to {:g}, warm-up {} steps, beta {:g} and {:g}, weight decay {:g}, "
                                 "gradient norm at most {:g}",
                                 training.lr, training.min_lr, training.warmup, training.beta1, training.beta2,
                                 training.weight_decay, training.clip)},
       {"start",
        fmt::format("embeddings and linear layers with a standard deviation of {:.3f}", InitialDeviation(options_.width))},
       {"threads", fmt::format("{} runs side by side, one thread each", options_.threads)},
       {"processor", environment.cpu + " (" + targets + ")"},
       {"versions",
        fmt::format("heed {}, LibTorch {}, compiler {}", environment.version, environment.libtorch, environment.compiler)}}});
}

// One line a run and a length.
std::string RunsCsv(const StudyResult& result) {
  std::string csv = "objective,model,encoder,position,ffn_width,parameters,seed,context,loss,tokens_per_second\n";
  for (const auto* models : {&result.causal, &result.masked}) {
    for (const ModelResult& entry : *models) {
      const StudyModel& model = entry.model;
      for (const StudyRun& run : entry.runs) {
        for (std::size_t i = 0; i < std::size(kLengthMultiples); ++i) {
          csv += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", ToString(model.objective), model.Id(), model.encoder,
                             model.position, model.ffn_width, model.parameters, run.seed,
                             kLengthMultiples[i] * result.options.context,
                             entry.Reaches(i) ? FormatNumber(run.losses[i]) : "n/a", FormatNumber(run.tokens_per_second));
        }
      }
    }
  }
  return csv;
}

}  // namespace

void WriteStudy(const StudyResult& result, const std::filesystem::path& folder) {
  Page page(result, folder);
  page.Conclude();
  page.Describe();
  page.Compare(Objective::kCausal, "Predicting the next character");
  page.Compare(Objective::kMasked, "Filling in hidden characters");
  page.Lengthen();
  page.Speed();
  page.Positions();
  page.Schemes();
  page.SingleLayers();
  page.DeepStacks();
  page.Tasks();
  page.Settings();
  WriteFile(folder / "runs.csv", RunsCsv(result));
  WriteFile(folder / "study.json", JsonText(StudyJson(result, true), 1) + "\n");
  page.Write();
}

}  // namespace heed::lab
