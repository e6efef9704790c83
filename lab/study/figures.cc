#include "lab/study/figures.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lab/positions/positions.h"
#include "lab/runs/show.h"
#include "lab/study/run.h"

namespace heed::lab {
namespace {

std::string Task(Objective objective) {
  return objective == Objective::kCausal ? "predicting the next character" : "filling in hidden characters";
}

Figure CurveFigure(const Measurements& measured, Objective objective, const std::string& kind, std::vector<Series> curves) {
  return {.name = ToString(objective) + "-curves-" + kind,
          .title = fmt::format("Training loss over the steps: {}, {}", kind, Task(objective)),
          .caption =
              "Each point is the mean over the steps since the one before. " + SpreadNote(measured.seeds(), "The band reaches"),
          .command = {},
          .content = LinePlot{"Step", measured.ColumnOf("training_loss").measure.label, false, false, std::move(curves)}};
}

}  // namespace

Figure LossFigure(const StudyResult& result, Objective objective) {
  const Measurements& measured = result.Of(objective);
  std::vector<Reference> references;
  if (objective == Objective::kCausal) references = {{"previous character alone", result.baselines.previous_character}};
  references.push_back({"frequencies alone", result.baselines.frequencies});
  Figure figure = BarFigure(measured, measured.ColumnOf("loss"), references);
  figure.name = ToString(objective) + "-loss";
  figure.title = "Loss after training: " + Task(objective);
  return figure;
}

std::vector<Figure> CurveFigures(const StudyResult& result, Objective objective) {
  const Measurements& measured = result.Of(objective);
  std::vector<Series> schemes, encoders;
  for (const Contender& model : Attending(measured.models())) {
    schemes.push_back(Curve(measured, model, "training_loss", SchemeLabel(model.position)));
  }
  for (const Contender& model : measured.OnePerEncoder(measured.ColumnOf("loss"))) {
    encoders.push_back(Curve(measured, model, "training_loss", model.Label()));
  }
  std::vector<Figure> figures;
  if (schemes.size() > 1) figures.push_back(CurveFigure(measured, objective, "schemes", std::move(schemes)));
  if (encoders.size() > 1) figures.push_back(CurveFigure(measured, objective, "encoders", std::move(encoders)));
  return figures;
}

std::optional<Figure> LengthFigure(const StudyResult& result, Objective objective) {
  const Measurements& measured = result.Of(objective);
  const Column& loss = measured.ColumnOf("loss");
  LinePlot plot{"Characters in a window", loss.measure.label, true, false, {}};
  bool several = false;
  for (const Contender& model : Attending(measured.models())) {
    plot.series.push_back(Curve(measured, model, "loss", SchemeLabel(model.position)));
    several = several || plot.series.back().x.size() > 1;
  }
  if (!several) return std::nullopt;
  return Figure{
      .name = ToString(objective) + "-lengths",
      .title = "Loss over the length of the window: " + Task(objective),
      .caption = fmt::format("Trained at {} characters. A curve that rises has met positions it was not trained for. {}",
                             loss.at, SpreadNote(measured.seeds(), "The band reaches")),
      .command = {},
      .content = std::move(plot)};
}

Figure SpeedFigure(const StudyResult& result) {
  const Measurements& measured = result.Of(Objective::kCausal);
  Figure figure = BarFigure(measured, measured.ColumnOf("tokens_per_second"));
  figure.name = "speed";
  figure.title = "Speed of training on one thread";
  figure.caption = "Forward, backward and the optimiser's step, per second of the thread's own time. " + figure.caption;
  return figure;
}

std::vector<Figure> SchemeFigures(const StudyResult& result) {
  const StudyOptions& options = result.options;
  std::vector<Figure> figures;
  const Measurements& measured = result.Of(Objective::kCausal);
  for (const Contender& model : Attending(measured.models())) {
    const std::string& scheme = model.position;
    if (scheme == "none" || scheme == "sinusoidal" || scheme == "alibi") continue;
    const std::optional<SchemeTable> table = TableOf(measured.More(model, 0));
    PositionsOptions drawn;
    drawn.scheme = scheme;
    drawn.steps = options.context;
    drawn.seed = options.seed;
    drawn.width = scheme == "relative" || scheme == "t5" ? options.heads : options.width / options.heads;
    drawn.first_column = 0, drawn.last_column = std::min<int64_t>(4, drawn.width);
    const std::vector<Figure> all = PositionFigures(drawn, table);
    for (const Figure& figure : {all.front(), all.back()}) {
      figures.push_back(figure);
    }
  }
  return figures;
}

std::vector<Figure> StudyPositionFigures(const std::filesystem::path& folder) {
  PositionsOptions narrow, biases;
  narrow.steps = 100, narrow.width = 20, narrow.first_column = 4, narrow.last_column = 8, narrow.column_label = "dim";
  biases.scheme = "alibi", biases.width = 8, biases.first_column = 0, biases.last_column = 4;
  Figure dimensions = PositionFigures(narrow).front();
  dimensions.name = "positions-dimensions";
  dimensions.title = "Dimensions of a narrower encoding over more positions";
  std::vector<Figure> figures;
  // Pages of their own: none takes the place of another.
  const auto add = [&](const PositionsOptions& options, const char* name, const std::vector<Figure>& drawn) {
    for (const Figure& figure : drawn) {
      figures.push_back(figure);
      figures.back().command = CommandOf(options, folder / name);
    }
  };
  add({}, "positions", PositionFigures({}));
  add(narrow, "positions-narrow", {dimensions});
  add(biases, "positions-alibi", PositionFigures(biases));
  return figures;
}

}  // namespace heed::lab
