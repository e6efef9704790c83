#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "lab/report/page.h"
#include "lab/runs/contest_page.h"
#include "lab/study/figures.h"
#include "lab/study/findings.h"
#include "lab/study/plan.h"
#include "lab/study/study.h"
#include "lab/training/initialisation.h"

namespace heed::lab {
namespace {

void SayOf(const std::string& subject, const std::string& finding, Page& page) {
  if (!finding.empty()) page.Say(subject + finding);
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

// The first screen: one answer, one picture, one command.
void Lead(const StudyResult& result, Page& page) {
  page.Say(Answer(result));
  page.Show(ContestFigure(result, ParseObjective(result.options.objectives.front())));
  page.Say("To go on:");
  page.Command(NextCommand(result));
}

std::string HowJudged(const StudyResult& result) {
  return fmt::format(
      "{} is cut into blocks of {} characters; of every ten, drawn with a fixed seed, eight train, one chooses the learning "
      "rates ({} characters of them) and one, looked at once, is what this page reports ({} characters). {}",
      result.text.name, result.block, result.validation, result.test, ChanceInWords(result.options.seeds, "these blocks"));
}

void TellContest(const StudyResult& result, Objective objective, Page& page) {
  const bool causal = objective == Objective::kCausal;
  const ContestResult& contest = *result.Of(objective);
  page.Section(causal ? "Predicting the next character" : "Filling in hidden characters");
  if (!causal) page.Say("Some characters of a window are hidden (15 %), and the model fills them in from both sides.");
  page.Say(TimeFinding(contest, result.options.seconds));
  SayOf("Positional encodings in attention: ", SchemeFinding(contest), page);
  // The first screen has the first picture.
  if (ToString(objective) != result.options.objectives.front()) {
    page.Say(WorthFinding(result, objective) + " " + ChoiceFinding(result, objective));
    page.Show(ContestFigure(result, objective));
  }
  page.Show(StandingTable(contest, fmt::format("Loss on the test part in nats per character after {}",
                                               BudgetInWords(contest, result.options.seconds))));
  if (!causal) page.Say(OrderFinding(result));
}

void TellDoubts(const StudyResult& result, Objective objective, Page& page) {
  const std::string of = result.contests.size() == 1       ? ""
                         : objective == Objective::kCausal ? ": next character"
                                                           : ": hidden characters";
  const ContestResult& contest = *result.Of(objective);
  if (const std::string gain = GainFinding(contest); !gain.empty()) {
    page.Section("What more training would bring" + of);
    page.Say(gain);
    page.Show(GainFigure(contest));
  }
  if (contest.at_steps) {
    page.Section("After equal steps" + of);
    page.Say(StepsFinding(contest));
    page.Show(StepsTable(contest, fmt::format("Loss on the test part after {} steps", contest.common_steps)));
  }
  if (const std::string lengths = LengthFinding(result, objective); !lengths.empty()) {
    page.Section("Longer windows than in training" + of);
    page.Say(lengths);
    if (const auto figure = LengthFigure(result, objective)) page.Show(*figure);
  }
  page.Section("How they were trained" + of);
  page.Say(RateFinding(contest));
  page.Show(RateTable(contest));
  page.Say(PaceFinding(contest));
  page.Show(CurveFigure(result, objective));
}

void Describe(const StudyResult& result, Page& page) {
  const StudyOptions& options = result.options;
  page.Section("The text and the models");
  page.Say(fmt::format("{}: {} characters, {} different ones.", result.text.name, result.text.characters, result.vocabulary));
  page.Say(
      fmt::format("Every model is the same but for what mixes the characters: an embedding, residual layers ({} of width {}) "
                  "of a mixing and "
                  "a feed-forward sublayer each, and a head. All train on windows of {} characters, {} at a step.",
                  options.layers, options.width, options.context, options.batch));
  page.Show(ParameterTable(result.contests.front().at_time.models()));
}

void TellSettings(const StudyResult& result, Page& page) {
  page.Section("Settings");
  const StudyOptions& options = result.options;
  const Environment& environment = result.environment;
  std::string targets;
  for (const std::string& target : environment.simd_targets) targets += (targets.empty() ? "" : ", ") + target;
  const Entry& any = result.contests.front().entries.front();
  const TrainOptions training = TrainingOf(options, Objective::kCausal, {any.model, any.steps, any.rate, options.seed});
  page.Show(Table{
      "Every number of this page is in study.json, the runs one by one in runs.csv",
      {"Setting", "Value"},
      {{"text", fmt::format("{}, fingerprint {}", result.text.name, result.text.fingerprint)},
       {"budget", options.budget},
       {"runs of a model", SeedsOf(options.seed, options.seeds)},
       {"layers, heads, width", fmt::format("{}, {}, {}", options.layers, options.heads, options.width)},
       {"context, batch", fmt::format("{}, {}", options.context, options.batch)},
       {"given to each training", BudgetInWords(result.contests.front(), options.seconds)},
       {"optimiser",
        fmt::format(
            "AdamW, a rate that rises over a fifth of the steps and falls to a tenth, parameters that start at zero at {:g} "
            "times the rate, beta {:g} and {:g}, weight decay {:g}, gradient norm at most {:g}",
            training.zero_rate, training.beta1, training.beta2, training.weight_decay, training.clip)},
       {"start", fmt::format("linear layers with a standard deviation of {:.3f}, embeddings with {:.3f}",
                             InitialDeviation(options.width), EmbeddingDeviation(options.width))},
       {"threads", fmt::format("{} runs side by side, one thread each", options.threads)},
       {"processor", environment.cpu + " (" + targets + ")"},
       {"versions",
        fmt::format("heed {}, LibTorch {}, compiler {}", environment.version, environment.libtorch, environment.compiler)}}});
}

}  // namespace

std::filesystem::path WriteStudy(const StudyResult& result, const std::vector<PageLink>& beside,
                                 const std::filesystem::path& folder) {
  Page page("Which encoder, which positional encoding?", folder, result.command,
            SeedsOf(result.options.seed, result.options.seeds));
  Lead(result, page);
  for (const std::string& objective : result.options.objectives) TellContest(result, ParseObjective(objective), page);
  if (!beside.empty()) page.Section("On pages of their own");
  for (const PageLink& link : beside) page.Name(link);
  page.Section("How sure this is");
  page.Say(HowJudged(result));
  page.Say(LimitsFinding(result));
  for (const std::string& objective : result.options.objectives) TellDoubts(result, ParseObjective(objective), page);
  Describe(result, page);
  TellSettings(result, page);
  std::vector<const Measurements*> measured;
  measured.reserve(result.contests.size());
  for (const ContestResult& contest : result.contests) measured.push_back(&contest.at_time);
  page.Keep("runs.csv", MeasurementsCsv("objective", "at", measured));
  page.KeepJson("study.json", StudyJson(result, true));
  return page.Write();
}

}  // namespace heed::lab
