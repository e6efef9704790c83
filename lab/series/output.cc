#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lab/report/page.h"
#include "lab/runs/contest_page.h"
#include "lab/runs/show.h"
#include "lab/series/findings.h"
#include "lab/series/series.h"

namespace heed::lab {
namespace {

using Json = nlohmann::ordered_json;

// Both the best first.
Table SeriesTable(const SeriesResult& result) {
  std::vector<Heading> headings;
  for (const Column& column : result.told()) headings.push_back({column.measure.label, column});
  Table table = ScoreTable(
      fmt::format("On the test part, {}; parameters are as near to equal as the feed-forward sublayers' widths make them",
                  SpreadInWords(result.options.seeds)),
      result.scores(), result.scores().Ranked(result.loss()), headings);
  std::vector<SeriesBaseline> baselines = result.baselines;
  std::ranges::stable_sort(baselines, {}, &SeriesBaseline::loss);
  for (const SeriesBaseline& baseline : baselines) {
    table.rows.push_back({baseline.Label(), "no model", result.loss().measure.Text(baseline.loss)});
    if (result.Classifies()) {
      table.rows.back().push_back(result.scores().ColumnOf("accuracy").measure.Text(baseline.accuracy));
    }
  }
  return table;
}

std::vector<Reference> References(const SeriesResult& result, double SeriesBaseline::*number) {
  std::vector<Reference> references;
  references.reserve(result.baselines.size());
  for (const SeriesBaseline& baseline : result.baselines) references.push_back({baseline.name, baseline.*number});
  return references;
}

// The same study for those in the running, or the two best, with four times the time.
std::string NextCommand(const SeriesResult& result, const SeriesCommand& command_of, const std::filesystem::path& folder) {
  SeriesOptions longer = result.options;
  const Chosen chosen = ToGoOnWith(result.contest, /*least=*/2);
  longer.encoders = chosen.encoders, longer.step_seconds.clear();
  if (!chosen.positions.empty()) longer.positions = chosen.positions;
  longer.seconds *= 4, longer.all_steps *= 4;
  if (!result.contest.Timed()) longer.seconds = result.options.seconds;
  return command_of(longer, folder / "longer");
}

// The first screen: one answer, one picture, one command.
void Lead(const SeriesResult& result, const SeriesCommand& command_of, Page& page) {
  page.Say(SeriesWorthFinding(result) + " " + SeriesChoiceFinding(result));
  Figure standing = StandingFigure(result.contest, References(result, &SeriesBaseline::loss));
  standing.title = fmt::format("{} on the test part after {} each", result.loss().measure.label,
                               BudgetInWords(result.contest, result.options.seconds));
  page.Show(standing);
  page.Say("To go on:");
  page.Command(NextCommand(result, command_of, page.folder()));
}

std::string AboutBaselines(const SeriesResult& result) {
  std::string text =
      "What needs no model is fitted on the training part as well, and its one setting chosen on the validation part. ";
  text += result.data.goal == SeriesGoal::kForecast
              ? "Regression and neighbours see the window's columns, each less its last value."
          : result.data.each_step ? "Regression and neighbours see the eight steps to each side."
                                  : "Regression and neighbours see all steps side by side, as cells of one row.";
  for (const SeriesBaseline& baseline : result.baselines) {
    if (!baseline.limits.empty()) text += fmt::format(" {}: {}.", Sentence(baseline.name), baseline.limits);
  }
  return text;
}

void TellModels(const SeriesResult& result, Page& page) {
  page.Section("Models");
  page.Say(TimeFinding(result.contest, result.options.seconds));
  page.Say(SchemeFinding(result.contest));
  page.Show(StandingTable(result.contest, fmt::format("{} on the test part after {}", result.loss().measure.label,
                                                      BudgetInWords(result.contest, result.options.seconds))));
  page.Show(SeriesTable(result));
  if (result.Classifies()) {
    Figure bars =
        BarFigure(result.scores(), result.scores().ColumnOf("accuracy"), References(result, &SeriesBaseline::accuracy));
    bars.title = "Share of right answers";
    page.Show(bars);
  }
  page.Say(AboutBaselines(result));
}

std::string HowJudged(const SeriesResult& result) {
  return "Learning rates and settings are chosen on the validation part, and what this page reports is measured on the test "
         "part, which was looked at once. " +
         ChanceInWords(result.options.seeds,
                       fmt::format("{} groups of the test part that follow one another", result.contest.weights.size()));
}

void TellDoubts(const SeriesResult& result, Page& page) {
  page.Section("How sure this is");
  page.Say(HowJudged(result));
  page.Say(SeriesRangeFinding(result));
  if (const std::string gain = GainFinding(result.contest); !gain.empty()) {
    page.Section("What more training would bring");
    page.Say(gain);
    page.Show(GainFigure(result.contest));
  }
  page.Section("How they were trained");
  page.Say(RateFinding(result.contest));
  page.Show(RateTable(result.contest));
  page.Say(PaceFinding(result.contest));
  page.Say(StepsFinding(result.contest));
  page.Show(StepsTable(result.contest, fmt::format("After {} steps", result.contest.common_steps)));
}

std::string AboutData(const SeriesResult& result) {
  const SeriesSummary& data = result.data;
  std::string text = fmt::format(
      "{}: {} sequence{} of {} steps, {} in all, with {} feature{} ({}). ", data.name, data.sequences,
      data.sequences == 1 ? "" : "s",
      data.shortest == data.longest ? fmt::format("{}", data.longest) : fmt::format("{} to {}", data.shortest, data.longest),
      data.steps, data.features.size(), data.features.size() == 1 ? "" : "s", Join(data.features));
  if (data.goal == SeriesGoal::kForecast) {
    return text + fmt::format(
                      "Foretold: the next {} of {} after windows of {} steps, as the change from the last value. The first "
                      "part of each sequence trains ({} windows), then comes validation ({} windows) and last the test ({} "
                      "windows), of which every number here is.",
                      result.options.horizon == 1 ? "value" : fmt::format("{} values", result.options.horizon), data.target,
                      result.options.context, data.training, data.validation, data.test);
  }
  text += fmt::format("Asked for: {}, {} of {}. ", data.target, result.Classifies() ? "a class" : "a number",
                      data.each_step ? "every step" : "the whole sequence");
  if (!data.classes.empty()) text += fmt::format("{} classes: {}. ", data.classes.size(), Join(data.classes));
  return text +
         fmt::format("{} sequences train, {} validate and {} test, drawn with a fixed seed; every number here is of the test.",
                     data.training, data.validation, data.test);
}

std::string AboutModels(const SeriesResult& result) {
  const SeriesOptions& options = result.options;
  std::string text = fmt::format(
      "Every model is the same but for what mixes the steps: a linear layer for the features, {} of "
      "width {}, and a head{}. {} by the training part alone. {} of training each, {} {} a step.",
      options.layers == 1 ? "one layer" : fmt::format("{} layers", options.layers), options.width,
      result.data.each_step ? " at every step" : " on the mean over the steps",
      result.data.goal == SeriesGoal::kForecast ? "They see each column's change since the step before, and how far it lies "
                                                  "from its mean over the window so far; both "
                                                  "are standardised"
                                                : "Features are standardised",
      Sentence(BudgetInWords(result.contest, options.seconds)), options.batch,
      result.data.goal == SeriesGoal::kForecast ? "windows" : "sequences");
  if (result.data.has_times) {
    text +=
        " Steps stand at their times, in units of the median difference: sinusoidal encodings, rotations and ALiBi's distances "
        "are those of the times; the other schemes number the steps. All models are given the time since the step before as "
        "a feature.";
  }
  return text;
}

Table SettingsTable(const SeriesResult& result) {
  const SeriesOptions& options = result.options;
  const TrainOptions training = SeriesTraining(result.contest.entries.front().steps, options.rates.front());
  return {"Every number of this page is in study.json, the runs one by one in runs.csv",
          {"Setting", "Value"},
          {{"data", result.data.name + ", fingerprint " + result.data.fingerprint},
           {"budget", options.budget},
           {"runs of a model", SeedsOf(options.seed, options.seeds)},
           {"layers, heads, width", fmt::format("{}, {}, {}", options.layers, options.heads, options.width)},
           {"validation and test", fmt::format("{:g} of the data each", options.validation)},
           {"optimiser",
            fmt::format("AdamW, a rate that rises over a fifth of the steps and falls to a tenth, parameters that start "
                        "at zero at {:g} times the rate, weight decay {:g}",
                        training.zero_rate, training.weight_decay)},
           {"processor", result.environment.cpu},
           {"versions", fmt::format("heed {}, LibTorch {}", result.environment.version, result.environment.libtorch)}}};
}

Json BaselinesJson(const SeriesResult& result) {
  Json list = Json::array();
  for (const SeriesBaseline& baseline : result.baselines) {
    Json json = {{"name", baseline.name}, {"setting", baseline.setting}, {"limits", baseline.limits}, {"loss", baseline.loss}};
    if (result.Classifies()) json["accuracy"] = baseline.accuracy;
    list.push_back(std::move(json));
  }
  return list;
}

Json RangesJson(const SeriesSummary& data) {
  Json list = Json::array();
  for (const SeriesRange& range : data.left) {
    list.push_back({{"column", range.column},
                    {"training", {range.low, range.high}},
                    {"test", {range.test_low, range.test_high}},
                    {"outside", range.outside}});
  }
  return list;
}

}  // namespace

Json SeriesJson(const SeriesResult& result) {
  const SeriesSummary& data = result.data;
  SeriesOptions options = result.options;
  Json settings = {{"budget", options.budget}};
  settings.update(SettingsOf(FieldsOf(options)));
  Json json = {{"data",
                {{"name", data.name},
                 {"fingerprint", data.fingerprint},
                 {"goal", ToString(data.goal)},
                 {"target", data.target},
                 {"features", data.features},
                 {"classes", data.classes},
                 {"times", data.has_times},
                 {"each_step", data.each_step},
                 {"sequences", data.sequences},
                 {"steps", data.steps},
                 {"training", data.training},
                 {"validation", data.validation},
                 {"test", data.test},
                 {"left_range", RangesJson(data)}}},
               {"settings", std::move(settings)},
               {"environment", ToJson(result.environment)},
               {"conclusion", ToJson(SeriesConclusion(result))},
               {"baselines", BaselinesJson(result)},
               {"contest", ToJson(result.contest)},
               {"models", result.scores().Json()}};
  return json;
}

std::filesystem::path WriteSeries(const SeriesResult& result, const SeriesCommand& command_of,
                                  const std::filesystem::path& folder) {
  Page page("Which encoder, which positional encoding?", folder, command_of(result.options, folder),
            SeedsOf(result.options.seed, result.options.seeds));
  Lead(result, command_of, page);
  TellModels(result, page);
  TellDoubts(result, page);
  page.Section("The data and the models");
  page.Say(AboutData(result));
  page.Say(AboutModels(result));
  page.Section("Settings");
  page.Show(SettingsTable(result));
  page.Keep("runs.csv", MeasurementsCsv({}, {}, {&result.scores()}));
  page.KeepJson("study.json", SeriesJson(result));
  return page.Write();
}

}  // namespace heed::lab
