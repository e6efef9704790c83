#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lab/options/fields.h"
#include "lab/report/file.h"
#include "lab/report/page.h"
#include "lab/runs/contest.h"
#include "lab/runs/contest_page.h"
#include "lab/study/study.h"
#include "lab/training/initialisation.h"
#include "study_prose.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;

std::vector<Reference> References(const std::vector<Baseline>& baselines, double Baseline::*number) {
  std::vector<Reference> references;
  references.reserve(baselines.size());
  for (const Baseline& baseline : baselines) references.push_back({baseline.name, baseline.*number});
  return references;
}

// Losses after equal time, the best first, with what needs no model behind.
Figure LossFigure(const StudyResult& result, const StudiedTask& task) {
  Figure figure = StandingFigure(task.contest, References(task.baselines, &Baseline::loss));
  figure.title =
      fmt::format("Loss after {} each: {}", BudgetInWords(task.contest, result.options.seconds), task.question.title);
  return figure;
}

// The loss of every model over the length of the windows; nothing where no model has two.
std::optional<Figure> LengthsOf(const StudiedTask& task, const std::string& caption) {
  const Measurements& measured = task.contest.at_time;
  LinePlot plot{"Characters in a window", measured.ColumnOf("loss").measure.label, /*log_x=*/true, false, {}};
  bool several = false;
  for (const Contender& model : measured.models()) {
    Series curve = Curve(measured, model, "loss", model.Label());
    several = several || curve.x.size() > 1;
    if (!curve.x.empty()) plot.series.push_back(std::move(curve));
  }
  if (!several) return std::nullopt;
  return Figure{.name = task.id + "-lengths",
                .title = "Loss over the length of the window: " + task.question.title,
                .caption = caption + " " + SpreadNote(measured.seeds(), "The band reaches"),
                .command = {},
                .content = std::move(plot)};
}

// All models and what needs none, by all that is told of them.
Table AllTable(const StudiedTask& task) {
  const Measurements& measured = task.contest.at_time;
  const Column& loss = measured.ColumnOf("loss");
  const bool classifies =
      std::ranges::any_of(measured.columns(), [](const Column& of) { return of.measure.name == "accuracy"; });
  std::vector<Heading> headings = {{loss.measure.label, loss}};
  if (classifies) headings.push_back({"Accuracy", measured.ColumnOf("accuracy")});
  Table table = ScoreTable(
      TellStudy()("table of all",
                  "spread"_a = measured.seeds() == 1
                                   ? SpreadInWords(1)
                                   : fmt::format("mean (least–greatest) of a model's runs, {} at most", measured.seeds())),
      measured, measured.Ranked(loss), headings);
  std::vector<Baseline> baselines = task.baselines;
  std::ranges::stable_sort(baselines, {}, &Baseline::loss);
  for (const Baseline& baseline : baselines) {
    table.rows.push_back({baseline.Label(), "no model", loss.measure.Text(baseline.loss)});
    if (classifies) table.rows.back().push_back(measured.ColumnOf("accuracy").measure.Text(baseline.accuracy));
  }
  return table;
}

// The first screen: one answer, one picture, one command.
void Lead(const StudyResult& result, Page& page) {
  page.Say(AnswerTo(result, result.tasks.front()));
  page.Show(LossFigure(result, result.tasks.front()));
  page.Say(TellStudy()("kept", "kept"_a = result.kept));
  page.Command(UseCommand(result));
}

void TellTask(const StudyResult& result, const StudiedTask& task, Page& page) {
  const ContestResult& contest = task.contest;
  page.Section(task.question.title);
  page.Say(task.question.note);
  page.Say(TimeFinding(contest, result.options.seconds));
  if (const std::string schemes = SchemeFinding(contest); !schemes.empty())
    page.Say("Positional encodings in attention: " + schemes);
  if (&task != &result.tasks.front()) {  // the first screen has the first picture
    page.Say(AnswerTo(result, task));
    page.Show(LossFigure(result, task));
  }
  page.Show(
      StandingTable(contest, TellStudy()("table of standings", "given"_a = BudgetInWords(contest, result.options.seconds))));
  page.Show(AllTable(task));
  for (const Column& column : contest.at_time.ColumnsOf("accuracy")) {
    Figure bars = BarFigure(contest.at_time, column, References(task.baselines, &Baseline::accuracy));
    bars.title = "Share of right answers";
    page.Show(bars);
  }
  std::string baselines = TellStudy()("baselines");
  for (const Baseline& baseline : task.baselines) {
    if (!baseline.limits.empty()) baselines += fmt::format(" {}: {}.", Sentence(baseline.name), baseline.limits);
  }
  page.Say(baselines);
  if (task.id == "masked") page.Say(OrderFinding(result));
}

void TellDoubts(const StudyResult& result, const StudiedTask& task, Page& page) {
  const std::string of = result.tasks.size() == 1 ? "" : ": " + task.question.name;
  const ContestResult& contest = task.contest;
  if (const std::string gain = GainFinding(contest); !gain.empty()) {
    page.Section("What more training would bring" + of);
    page.Say(gain);
    page.Show(GainFigure(contest));
  }
  if (const std::string lengths = LengthFinding(result, task); !lengths.empty()) {
    page.Section("Longer windows than in training" + of);
    page.Say(lengths);
    const std::string caption = TellStudy()("figure of lengths", "context"_a = result.options.context);
    if (const auto figure = LengthsOf(task, caption)) page.Show(*figure);
  }
  page.Section("How they were trained" + of);
  page.Say(RateFinding(contest));
  page.Show(RateTable(contest));
  page.Say(PaceFinding(contest));
}

void TellSettings(const StudyResult& result, Page& page) {
  page.Section("Settings");
  const StudyOptions& options = result.options;
  const Environment& environment = result.environment;
  std::string targets;
  for (const std::string& target : environment.simd_targets) targets += (targets.empty() ? "" : ", ") + target;
  const TrainOptions training = TrainingOf(options, 1, 1, options.seed);
  page.Show(Table{
      "Every number of this page is in study.json, the runs one by one in runs.csv",
      {"Setting", "Value"},
      {{"data", fmt::format("{}, fingerprint {}", result.data.name, result.data.fingerprint)},
       {"budget", options.budget},
       {"runs of a model, in the mean", std::to_string(options.seeds)},
       {"layers, heads, width", fmt::format("{}, {}, {}", options.layers, options.heads, options.width)},
       {"context, batch", fmt::format("{}, {}", options.context, options.batch)},
       {"for each training", BudgetInWords(result.tasks.front().contest, options.seconds)},
       {"optimiser", TellStudy()("optimiser", "zero_rate"_a = training.zero_rate, "beta1"_a = training.beta1,
                                 "beta2"_a = training.beta2, "decay"_a = training.weight_decay, "clip"_a = training.clip)},
       {"start",
        TellStudy()("start", "linear"_a = InitialDeviation(options.width), "embeddings"_a = EmbeddingDeviation(options.width))},
       {"threads", fmt::format("{} runs side by side, one thread each", options.threads)},
       {"processor", environment.cpu + " (" + targets + ")"},
       {"versions",
        fmt::format("heed {}, LibTorch {}, compiler {}", environment.version, environment.libtorch, environment.compiler)}}});
}

// Those of an earlier study that this one did not write anew. Whatever its file says, nothing outside the folder goes, and not
// the page.
void RemoveFiles(const std::filesystem::path& folder, const std::vector<std::string>& earlier,
                 const std::vector<std::string>& written) {
  for (const std::string& name : earlier) {
    std::error_code error;
    const bool own = name != "report.html" && std::filesystem::path(name).filename() == name &&
                     std::filesystem::is_regular_file(folder / name, error);
    if (own && std::ranges::find(written, name) == written.end()) std::filesystem::remove(folder / name, error);
  }
}

using Json = nlohmann::ordered_json;

constexpr int kFormat = 2;  // of study.json; a change that breaks its readers raises it

Json SettingsJson(const StudyResult& result) {
  StudyOptions options = result.options;
  const TrainOptions training = TrainingOf(options, 1, 1, options.seed);
  Json json = {{"budget", options.budget}};
  json.update(SettingsOf(FieldsOf(options)));
  json["runs_side_by_side"] = options.threads;
  json["threads_of_a_run"] = 1;
  json["initial_deviation"] = InitialDeviation(options.width);
  json["optimiser"] = {{"beta1", training.beta1},
                       {"beta2", training.beta2},
                       {"zero_rate", training.zero_rate},
                       {"weight_decay", training.weight_decay},
                       {"clip", training.clip}};
  return json;
}

Json ToJson(const Baseline& baseline, bool classifies) {
  Json json = {{"name", baseline.name},
               {"setting", baseline.setting},
               {"limits", baseline.limits},
               {"loss", baseline.loss},
               {"validation_loss", baseline.validation},
               {"blocks", baseline.blocks}};
  if (classifies) json["accuracy"] = baseline.accuracy;
  return json;
}

// times: see OutlookOf; 0: not asked.
Json ToJson(const StudiedTask& task, double times) {
  Json json = {{"task", task.id}, {"purpose", task.question.purpose}, {"baselines", Json::array()}};
  const bool classifies = !task.contest.at_time.ColumnsOf("accuracy").empty();
  for (const Baseline& baseline : task.baselines) json["baselines"].push_back(ToJson(baseline, classifies));
  const Worth worth = WorthOf(task);
  json["worth"] = {{"answer", worth.answer},
                   {"baseline", task.BestBaseline().name},
                   {"gap", worth.behind.gap},
                   {"gap_by_both", ToJson(worth.behind.by_both)}};
  json.update(ToJson(task.contest));
  if (times > 1) json["for"] = ToJson(OutlookOf(task.contest, times), task.contest);
  json["models"] = task.contest.at_time.Json();
  return json;
}

}  // namespace

std::filesystem::path WriteStudy(const StudyResult& result, const std::vector<PageLink>& beside,
                                 const std::filesystem::path& folder) {
  int64_t runs = 1;  // of the model that has the most
  for (const StudiedTask& task : result.tasks) runs = std::max(runs, task.contest.at_time.seeds());
  Page page("Which encoder, which positional encoding?", folder, result.command, SeedsOf(result.options.seed, runs));
  StudyOptions brief = result.options;
  brief.step_seconds.clear();
  page.Shorten(CommandOf(brief, result.words, result.folder));
  Lead(result, page);
  for (const StudiedTask& task : result.tasks) TellTask(result, task, page);
  if (!beside.empty()) page.Section("More pages");
  for (const PageLink& link : beside) page.Name(link);
  page.Section("How sure this is");
  page.Say(result.data.parts + " " + TellStudy()("chance", "data"_a = result.data.blocks));
  page.Say(result.data.drift);
  page.Say(LimitsFinding(result));
  if (const std::string next = NextCommand(result); !next.empty()) {
    page.Say("This budget does not decide. Four times as much may:");
    page.Command(next);
  }
  for (const StudiedTask& task : result.tasks) TellDoubts(result, task, page);
  page.Section("The data and the models");
  page.Say(result.data.about);
  page.Say(result.data.models);
  TellSettings(result, page);
  std::vector<const Measurements*> measured;
  measured.reserve(result.tasks.size());
  for (const StudiedTask& task : result.tasks) measured.push_back(&task.contest.at_time);
  page.Keep("runs.csv", MeasurementsCsv("task", "at", measured));
  page.Keep("split.csv", result.data.split);
  const std::optional<EarlierStudy> earlier = EarlierStudyIn(folder);
  Json json = StudyJson(result);
  json["files"] = page.files();
  page.KeepJson("study.json", json);
  std::filesystem::path path = page.Write();
  if (earlier) RemoveFiles(folder, earlier->files, page.files());
  return path;
}

const Prose& TellStudy() {
  static const Prose prose(text::kStudyProseTxt);
  return prose;
}

std::optional<EarlierStudy> EarlierStudyIn(const std::filesystem::path& folder) {
  try {
    const Json json = ParseSettings(ReadFile(folder / "study.json", kMostSettingsBytes));
    const Json& data = json.at("data");
    return EarlierStudy{data.at("kind"), data.at("name"), data.at("fingerprint"),
                        json.value("files", std::vector<std::string>())};
  } catch (...) {
    return std::nullopt;
  }
}

Json StudyJson(const StudyResult& result) {
  Json json = {{"format", kFormat},
               {"data", result.data.json},
               {"settings", SettingsJson(result)},
               {"environment", ToJson(result.environment)},
               {"answer", AnswerTo(result, result.tasks.front())},
               {"conclusion", Json::array()},
               {"tasks", Json::array()}};
  for (const Finding& finding : Conclusion(result))
    json["conclusion"].push_back({{"question", finding.question}, {"answer", finding.answer}});
  for (const StudiedTask& task : result.tasks)
    json["tasks"].push_back(ToJson(task, result.options.for_seconds / result.options.seconds));
  return json;
}

}  // namespace heed::lab
