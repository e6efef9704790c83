#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "lab/comparison/output.h"
#include "lab/depth/findings.h"
#include "lab/depth/output.h"
#include "lab/report/page.h"
#include "lab/runs/show.h"
#include "lab/study/figures.h"
#include "lab/study/findings.h"
#include "lab/study/plan.h"
#include "lab/study/study.h"
#include "lab/tasks/findings.h"
#include "lab/tasks/output.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

constexpr int64_t kBinaryLines = 8;

constexpr Objective kObjectives[] = {Objective::kCausal, Objective::kMasked};

void SayOf(const std::string& subject, const std::string& finding, Page& page) {
  if (!finding.empty()) page.Say(subject + finding);
}

std::vector<Heading> LossHeadings(const Measurements& measured) {
  std::vector<Heading> headings;
  const std::vector<Column> losses = measured.ColumnsOf("loss");
  headings.reserve(losses.size());
  for (const Column& loss : losses) {
    headings.push_back({fmt::format("{} characters ({}x)", loss.at, loss.at / losses.front().at), loss});
  }
  return headings;
}

Table LossTable(const Measurements& measured) {
  return ScoreTable("Loss on validation text in nats per character, " + SpreadInWords(measured.seeds()), measured,
                    measured.Ranked(measured.ColumnOf("loss")), LossHeadings(measured));
}

Table ParameterTable(const Models& models) {
  Table table{"Feed-forward widths chosen so that the parameters are equal; counted on the built models",
              {"Model", "Feed-forward width", "Parameters", "Difference from the mean"},
              {}};
  double mean = 0;
  for (const SizedContender& model : models) mean += static_cast<double>(model.parameters) / static_cast<double>(models.size());
  for (const SizedContender& model : models) {
    const double percent = 100 * (static_cast<double>(model.parameters) / mean - 1);
    const double difference = std::round(10 * percent) / 10 + 0.0;  // no minus before a zero
    table.rows.push_back({model.Label(), std::to_string(model.ffn_width), std::to_string(model.parameters),
                          fmt::format("{:.1f} %", difference)});
  }
  return table;
}

Table Glance(const StudyResult& result) {
  std::vector<Question> questions;
  for (const Objective objective : kObjectives) {
    const Measurements& measured = result.Of(objective);
    const Column& loss = measured.ColumnOf("loss");
    const std::string what = objective == Objective::kCausal ? ", next character" : ", hidden characters";
    questions.push_back({"Encoder" + what, &measured, loss, measured.OnePerEncoder(loss)});
    questions.push_back({"Positional encoding of attention" + what, &measured, loss, Attending(measured.models()), true});
  }
  return GlanceTable(fmt::format("Best on validation text, windows of {} characters; loss in nats per character, {}",
                                 result.options.context, SpreadInWords(result.options.seeds)),
                     questions);
}

void Conclude(const StudyResult& result, Page& page) {
  page.Section("Conclusion");
  page.Say("A study of " + result.text.name + ".");
  page.Show(Glance(result));
  page.Say(OrderFinding(result.Of(Objective::kMasked), result.baselines));
  page.Say(LengthFinding(result.Of(Objective::kCausal)));
  page.Say(SpeedFinding(result.Of(Objective::kCausal)));
  if (result.depth) page.Say(DepthConclusion(*result.depth));
  if (result.tasks) page.Say(TasksConclusion(*result.tasks));
  page.Say(
      "A loss in nats is the mean surprise at a character: less is better, and 0.69 nats less halve the number of characters "
      "that the model hesitates between. Small models after short training rank as they learn, not as they end: a longer "
      "budget may rank them otherwise.");
}

void Describe(const StudyResult& result, Page& page) {
  const StudyOptions& options = result.options;
  page.Section("The text and the models");
  page.Say(fmt::format(
      "{}: {} characters, {} different ones. Models train on the first nine tenths and are measured on {} characters "
      "of the rest.",
      result.text.name, result.text.characters, result.vocabulary, result.validation));
  page.Say(fmt::format(
      "Every model is the same but for what mixes the characters: an embedding, residual layers ({} of width "
      "{}) of a mixing and a feed-forward sublayer each, and a head. All see the "
      "same windows of {} characters, {} at a step, for {} steps (next character) and {} steps (hidden characters); {}.",
      options.layers, options.width, options.context, options.batch, options.steps(Objective::kCausal),
      options.steps(Objective::kMasked),
      options.seeds == 1 ? "one run of each" : fmt::format("{} runs of each with different seeds", options.seeds)));
  page.Show(ParameterTable(result.Of(Objective::kCausal).models()));
}

void CompareModels(const StudyResult& result, Objective objective, Page& page) {
  const bool causal = objective == Objective::kCausal;
  const Measurements& measured = result.Of(objective);
  page.Section(causal ? "Predicting the next character" : "Filling in hidden characters");
  page.Say(causal ? "The model sees the characters so far and predicts the next one."
                  : "Some characters of a window are hidden (15 %), and the model fills them in from both sides.");
  SayOf("Encoders: ", EncoderFinding(measured), page);
  SayOf("Positional encodings in attention: ", AttentionFinding(measured), page);
  if (!causal) page.Say(OrderFinding(measured, result.baselines));
  page.Show(LossFigure(result, objective));
  page.Show(LossTable(measured));
  for (const Figure& figure : CurveFigures(result, objective)) page.Show(figure);
}

void Lengthen(const StudyResult& result, Page& page) {
  if (Attending(result.Of(Objective::kCausal).models()).empty()) return;
  page.Section("Longer than in training");
  page.Say(
      "The same text is cut into longer windows. More context helps a model that can use it; a scheme that meets positions it "
      "was not trained for loses. Which characters are hidden differs between lengths.");
  for (const Objective objective : kObjectives) {
    SayOf(objective == Objective::kCausal ? "Next character: " : "Hidden characters: ", LengthFinding(result.Of(objective)),
          page);
    if (const auto figure = LengthFigure(result, objective)) page.Show(*figure);
  }
}

void TellSpeed(const StudyResult& result, Page& page) {
  page.Section("Speed");
  page.Say(SpeedFinding(result.Of(Objective::kCausal)));
  page.Show(SpeedFigure(result));
}

void TellPositions(const StudyResult& result, Page& page) {
  page.Section("Positions by themselves");
  const std::vector<Figure> figures = StudyPositionFigures(page.folder());
  page.Say(PositionsFinding(result.rotation, figures));
  for (const Figure& figure : figures) page.Show(figure);
  Table numbers{"Binary numbers do the same with digits: the last changes at every number, the one before at every second",
                {"Number"},
                {}};
  for (const std::string& line : BinaryTable(kBinaryLines)) numbers.rows.push_back({line});
  page.Show(numbers);
  const auto error = [](double value) { return fmt::format("{:.2e}", value); };
  page.Show(Table{"Largest absolute errors of the emitted table",
                  {"Comparison", "Error"},
                  {{"table against angles in double precision", error(result.rotation.table_error)},
                   {"row turned by a shift against the shifted row", error(result.rotation.rotation_error)},
                   {"map fitted by least squares against the rotation", error(result.rotation.least_squares_error)}}});
}

// What each scheme costs and brings with the next character as objective.
void TellSchemes(const StudyResult& result, Page& page) {
  const Measurements& measured = result.Of(Objective::kCausal);
  const Models schemes = Attending(measured.models());
  if (schemes.size() < 2) return;
  page.Section("Positional encodings side by side");
  page.Say(
      "What a scheme says of a distance, what it is worth within and beyond the training length, and what it costs: the time "
      "of a step, and parameters that the feed-forward sublayer then does not get.");
  std::vector<Heading> headings = LossHeadings(measured);
  const Column& speed = measured.ColumnOf("tokens_per_second");
  headings.push_back({speed.measure.label, speed});
  Table table = ScoreTable("Positional encodings in attention, predicting the next character: loss in nats per character, " +
                               SpreadInWords(measured.seeds()),
                           measured, schemes, headings);
  table.header.push_back("Feed-forward width");
  for (std::size_t i = 0; i < schemes.size(); ++i) table.rows[i].push_back(std::to_string(schemes[i].ffn_width));
  page.Show(table);
  for (const Figure& figure : SchemeFigures(result)) page.Show(figure);
}

void TellLayers(const StudyResult& result, Page& page) {
  page.Section("Single layers: operations, steps, paths");
  TellComparison(result.comparison, page.folder() / "compare", page);
}

void TellStacks(const StudyResult& result, Page& page) {
  if (!result.depth) return;
  page.Section("Deep stacks");
  page.Say(
      "What happens to tokens, attention and gradients on their way through many layers: in stacks as they start, and in "
      "stacks trained for a few steps.");
  TellDepth(*result.depth, page);
}

void TellSyntheticTasks(const StudyResult& result, Page& page) {
  if (!result.tasks) return;
  page.Section("Tasks whose answers are known");
  const TaskOptions& tasks = result.tasks->options;
  page.Say(
      fmt::format("Not of this text: small models ({} wide) learn synthetic tasks at {} steps, and are then measured at other "
                  "lengths too.",
                  tasks.width, tasks.length));
  TellTasks(*result.tasks, page);
}

void TellSettings(const StudyResult& result, Page& page) {
  page.Section("Settings");
  const StudyOptions& options = result.options;
  const Environment& environment = result.environment;
  std::string targets;
  for (const std::string& target : environment.simd_targets) targets += (targets.empty() ? "" : ", ") + target;
  const SizedContender& any = result.Of(Objective::kCausal).models().front();
  const TrainOptions training = TrainingOf(options, Objective::kCausal, any, options.seed);
  page.Show(Table{
      "Every number of this page is in study.json, the runs one by one in runs.csv",
      {"Setting", "Value"},
      {{"text", fmt::format("{}, fingerprint {}", result.text.name, result.text.fingerprint)},
       {"budget", options.budget},
       {"runs of a model", SeedsOf(options.seed, options.seeds)},
       {"layers, heads, width", fmt::format("{}, {}, {}", options.layers, options.heads, options.width)},
       {"context, batch", fmt::format("{}, {}", options.context, options.batch)},
       {"steps", fmt::format("{} next character, {} hidden characters", options.steps(Objective::kCausal),
                             options.steps(Objective::kMasked))},
       {"optimiser", fmt::format("AdamW, learning rate {:g} to {:g}, warm-up {} steps, beta {:g} and {:g}, weight decay {:g}, "
                                 "gradient norm at most {:g}",
                                 training.lr, training.min_lr, training.warmup, training.beta1, training.beta2,
                                 training.weight_decay, training.clip)},
       {"start",
        fmt::format("embeddings and linear layers with a standard deviation of {:.3f}", InitialDeviation(options.width))},
       {"threads", fmt::format("{} runs side by side, one thread each", options.threads)},
       {"processor", environment.cpu + " (" + targets + ")"},
       {"versions",
        fmt::format("heed {}, LibTorch {}, compiler {}", environment.version, environment.libtorch, environment.compiler)}}});
}

}  // namespace

std::filesystem::path WriteStudy(const StudyResult& result, const std::filesystem::path& folder) {
  Page page("Which encoder, which positional encoding?", folder, result.command,
            SeedsOf(result.options.seed, result.options.seeds));
  Conclude(result, page);
  Describe(result, page);
  for (const Objective objective : kObjectives) CompareModels(result, objective, page);
  Lengthen(result, page);
  TellSpeed(result, page);
  TellPositions(result, page);
  TellSchemes(result, page);
  TellLayers(result, page);
  TellStacks(result, page);
  TellSyntheticTasks(result, page);
  TellSettings(result, page);
  page.Keep("runs.csv", MeasurementsCsv("objective", "at", {&result.Of(Objective::kCausal), &result.Of(Objective::kMasked)}));
  page.KeepJson("study.json", StudyJson(result, true));
  return page.Write();
}

}  // namespace heed::lab
