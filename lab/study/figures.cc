#include "lab/study/figures.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "lab/positions/positions.h"

namespace heed::lab {
namespace {

constexpr char kLossLabel[] = "Loss on validation text (nats per character)";

std::string Task(Objective objective) {
  return objective == Objective::kCausal ? "predicting the next character" : "filling in hidden characters";
}

// "The mark reaches from the least to the greatest of 3 seeds."
std::string SpreadNote(const StudyOptions& options, const char* mark) {
  return options.seeds == 1 ? "One seed." : fmt::format("{} from the least to the greatest of {} seeds.", mark, options.seeds);
}

void AddBar(BarChart& chart, const std::string& name, const Spread& spread) {
  chart.names.push_back(name);
  chart.values.push_back(spread.mean);
  chart.low.push_back(spread.low);
  chart.high.push_back(spread.high);
}

int HeightOf(const BarChart& chart) { return std::max(200, 110 + 26 * static_cast<int>(chart.names.size())); }

// Mean, least and greatest over the runs at each point.
Series CurveOf(const ModelResult& model, const std::string& name) {
  Series series{.name = name, .x = {}, .y = {}, .low = {}, .high = {}};
  for (std::size_t i = 0; i < model.runs.front().curve_steps.size(); ++i) {
    std::vector<double> losses;
    losses.reserve(model.runs.size());
    for (const StudyRun& run : model.runs) losses.push_back(run.curve_losses[i]);
    const Spread spread = SpreadOf(losses);
    series.x.push_back(static_cast<double>(model.runs.front().curve_steps[i]));
    series.y.push_back(spread.mean);
    series.low.push_back(spread.low);
    series.high.push_back(spread.high);
  }
  return series;
}

Figure CurveFigure(const StudyResult& result, Objective objective, const std::string& kind, std::vector<Series> curves) {
  return {.name = ToString(objective) + "-curves-" + kind,
          .title = fmt::format("Training loss over the steps: {}, {}", kind, Task(objective)),
          .caption =
              "Each point is the mean over the steps since the one before. " + SpreadNote(result.options, "The band reaches"),
          .command = result.command,
          .seeds = SeedsOf(result.options.seed, result.options.seeds),
          .content = LinePlot{"Step", "Training loss (nats per character)", false, false, std::move(curves)}};
}

Series LengthsOf(const ModelResult& model, const StudyOptions& options) {
  Series series{.name = SchemeLabel(model.model.position), .x = {}, .y = {}, .low = {}, .high = {}};
  for (std::size_t i = 0; i < std::size(kLengthMultiples); ++i) {
    if (!model.Reaches(i)) continue;
    const Spread spread = model.Loss(i);
    series.x.push_back(static_cast<double>(kLengthMultiples[i] * options.context));
    series.y.push_back(spread.mean);
    series.low.push_back(spread.low);
    series.high.push_back(spread.high);
  }
  return series;
}

}  // namespace

const std::vector<ModelResult>& ModelsOf(const StudyResult& result, Objective objective) {
  return objective == Objective::kCausal ? result.causal : result.masked;
}

Figure LossFigure(const StudyResult& result, Objective objective) {
  BarChart chart{kLossLabel, {}, {}, {}, {}};
  for (const ModelResult* model : Ranked(ModelsOf(result, objective))) AddBar(chart, model->model.Label(), model->Loss());
  const Baselines& baselines = result.baselines;
  if (objective == Objective::kCausal) {
    AddBar(chart, "previous character alone",
           {baselines.previous_character, baselines.previous_character, baselines.previous_character});
  }
  AddBar(chart, "frequencies alone", {baselines.frequencies, baselines.frequencies, baselines.frequencies});
  const int height = HeightOf(chart);
  return {.name = ToString(objective) + "-loss",
          .title = "Loss after training: " + Task(objective),
          .caption = "Shorter is better. The last bars need no model: they count characters. " +
                     SpreadNote(result.options, "The mark at a bar's end reaches"),
          .command = result.command,
          .seeds = SeedsOf(result.options.seed, result.options.seeds),
          .content = std::move(chart),
          .width = 680,
          .height = height};
}

std::vector<Figure> CurveFigures(const StudyResult& result, Objective objective) {
  std::vector<Series> schemes, encoders;
  for (const ModelResult& model : Attending(ModelsOf(result, objective))) {
    schemes.push_back(CurveOf(model, SchemeLabel(model.model.position)));
  }
  for (const ModelResult& model : OnePerEncoder(ModelsOf(result, objective))) {
    encoders.push_back(CurveOf(model, model.model.Label()));
  }
  std::vector<Figure> figures;
  if (schemes.size() > 1) figures.push_back(CurveFigure(result, objective, "schemes", std::move(schemes)));
  if (encoders.size() > 1) figures.push_back(CurveFigure(result, objective, "encoders", std::move(encoders)));
  return figures;
}

std::optional<Figure> LengthFigure(const StudyResult& result, Objective objective) {
  LinePlot plot{"Characters in a window", kLossLabel, true, false, {}};
  bool several = false;
  for (const ModelResult& model : Attending(ModelsOf(result, objective))) {
    plot.series.push_back(LengthsOf(model, result.options));
    several = several || plot.series.back().x.size() > 1;
  }
  if (!several) return std::nullopt;
  return Figure{
      .name = ToString(objective) + "-lengths",
      .title = "Loss over the length of the window: " + Task(objective),
      .caption = fmt::format("Trained at {} characters. A curve that rises has met positions it was not trained for. ",
                             result.options.context) +
                 SpreadNote(result.options, "The band reaches"),
      .command = result.command,
      .seeds = SeedsOf(result.options.seed, result.options.seeds),
      .content = std::move(plot)};
}

Figure SpeedFigure(const StudyResult& result) {
  std::vector<const ModelResult*> models;
  models.reserve(result.causal.size());
  for (const ModelResult& model : result.causal) models.push_back(&model);
  std::stable_sort(models.begin(), models.end(), [](const ModelResult* a, const ModelResult* b) {
    return a->TokensPerSecond().mean > b->TokensPerSecond().mean;
  });
  BarChart chart{"Thousand characters per second", {}, {}, {}, {}};
  for (const ModelResult* model : models) {
    const Spread speed = model->TokensPerSecond();
    AddBar(chart, model->model.Label(), {speed.mean / 1000, speed.low / 1000, speed.high / 1000});
  }
  const int height = HeightOf(chart);
  return {.name = "speed",
          .title = "Speed of training on one thread",
          .caption = "Longer is better. Forward, backward and the optimiser's step, per second of the thread's own time. " +
                     SpreadNote(result.options, "The mark at a bar's end reaches"),
          .command = result.command,
          .seeds = SeedsOf(result.options.seed, result.options.seeds),
          .content = std::move(chart),
          .width = 680,
          .height = height};
}

std::vector<Figure> SchemeFigures(const StudyResult& result) {
  const StudyOptions& options = result.options;
  std::vector<Figure> figures;
  for (const ModelResult& model : Attending(result.causal)) {
    const std::string& scheme = model.model.position;
    if (scheme == "none" || scheme == "sinusoidal" || scheme == "alibi") continue;
    const std::optional<SchemeTable>& table = model.runs.front().table;
    PositionsOptions drawn;
    drawn.scheme = scheme;
    drawn.steps = options.context;
    drawn.seed = options.seed;
    drawn.width = scheme == "relative" || scheme == "t5" ? options.heads : options.width / options.heads;
    drawn.first_column = 0, drawn.last_column = std::min<int64_t>(4, drawn.width);
    const std::vector<Figure> all = PositionFigures(drawn, table);
    for (const Figure& figure : {all.front(), all.back()}) {
      figures.push_back(figure);
      figures.back().command = result.command;
    }
  }
  return figures;
}

std::vector<Figure> StudyPositionFigures() {
  std::vector<Figure> figures = PositionFigures(PositionsOptions());
  PositionsOptions narrow;
  narrow.steps = 100, narrow.width = 20, narrow.first_column = 4, narrow.last_column = 8, narrow.column_label = "dim";
  Figure dimensions = PositionFigures(narrow).front();
  dimensions.name = "positions-dimensions";
  dimensions.title = "Dimensions of a narrower encoding over more positions";
  figures.push_back(std::move(dimensions));
  PositionsOptions biases;
  biases.scheme = "alibi", biases.width = 8, biases.first_column = 0, biases.last_column = 4;
  for (Figure& figure : PositionFigures(biases)) {
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace heed::lab
