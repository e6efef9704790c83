#include "lab/study/figures.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "lab/runs/contest_page.h"
#include "lab/runs/show.h"
#include "lab/study/run.h"

namespace heed::lab {
namespace {

std::string Task(Objective objective) {
  return objective == Objective::kCausal ? "predicting the next character" : "filling in hidden characters";
}

}  // namespace

Figure ContestFigure(const StudyResult& result, Objective objective) {
  const CountedText& counted = result.counted;
  std::vector<Reference> references;
  if (objective == Objective::kCausal) {
    references = {{CountingName(counted), MeanOf(counted.losses)}};
  } else {
    references = {{"frequencies of characters", MeanOf(counted.frequencies)}};
  }
  const ContestResult& contest = *result.Of(objective);
  Figure figure = StandingFigure(contest, references);
  figure.title = fmt::format("Loss after {} each: {}", BudgetInWords(contest, result.options.seconds), Task(objective));
  return figure;
}

Figure CurveFigure(const StudyResult& result, Objective objective) {
  const Measurements& measured = result.Of(objective)->at_time;
  std::vector<Series> curves;
  for (const Contender& model : measured.models()) {
    Series curve = Curve(measured, model, "training_loss", model.Label());
    if (!curve.x.empty()) curves.push_back(std::move(curve));
  }
  return {.name = ToString(objective) + "-curves",
          .title = "Training loss over the training: " + Task(objective),
          .caption =
              "Each point is the mean over the steps since the one before. " + SpreadNote(measured.seeds(), "The band reaches"),
          .command = {},
          .content = LinePlot{"Share of the training (%)", measured.ColumnOf("training_loss").measure.label, false, false,
                              std::move(curves)}};
}

std::optional<Figure> LengthFigure(const StudyResult& result, Objective objective) {
  const Measurements& measured = result.Of(objective)->at_time;
  const Column& loss = measured.ColumnOf("loss");
  LinePlot plot{"Characters in a window", loss.measure.label, true, false, {}};
  bool several = false;
  for (const Contender& model : measured.models()) {
    Series curve = Curve(measured, model, "loss", model.Label());
    several = several || curve.x.size() > 1;
    if (!curve.x.empty()) plot.series.push_back(std::move(curve));
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

}  // namespace heed::lab
