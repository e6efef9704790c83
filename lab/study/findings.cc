#include "lab/study/study.h"

#include <algorithm>
#include <cmath>

#include "lab/report/printable.h"
#include "lab/runs/contest_page.h"

namespace heed::lab {
namespace {

using namespace fmt::literals;

// What a single block says, which no spread of blocks can: who was better in it, where that is the same in every run.
std::string OnOneBlock(const StudiedTask& task) {
  const Baseline& baseline = task.BestBaseline();
  if (baseline.blocks.size() != 1) return {};
  const Contender& model = TakenOf(task.contest).model;
  const std::vector<std::vector<double>> runs = task.contest.at_time.BlockLosses(model);
  const auto loss = [](const std::vector<double>& run) { return run.front(); };
  const double other = baseline.blocks.front();
  const auto [least, largest] = std::ranges::minmax(runs, {}, loss);
  const bool ahead = largest.front() < other;
  if (!ahead && least.front() <= other) return {};
  // By how much at least.
  constexpr double kWorthSaying = 1.5;
  const double times = ahead ? other / largest.front() : least.front() / other;
  const bool several = std::isfinite(times) && times >= kWorthSaying;
  return " " + TellStudy()("worth block", "better"_a = ahead ? model.Phrase() : baseline.Phrase(),
                           "times"_a = several ? TellStudy()("worth block times", "times"_a = times) : "");
}

// How many runs would tell the two apart, by the spread of these; empty where that is not known.
std::string WhatWouldDecide(const StudyResult& result, const Judged& behind) {
  constexpr double kMostTimes = 100;
  const double by_seeds = behind.by_seeds.high - behind.gap, by_blocks = behind.by_blocks.high - behind.gap;
  if (!std::isfinite(by_seeds) || !std::isfinite(by_blocks)) return {};
  if (by_blocks >= behind.gap) return " " + TellStudy()("worth data");
  const double times = by_seeds * by_seeds / (behind.gap * behind.gap - by_blocks * by_blocks);
  if (times > kMostTimes) return " " + TellStudy()("worth never", "times"_a = kMostTimes);
  return " " +
         TellStudy()("worth runs", "times"_a = times, "seeds"_a = std::ceil(times * static_cast<double>(result.options.seeds)));
}

std::string Given(const StudyResult& result, const StudiedTask& task) {
  return BudgetInWords(task.contest, result.options.seconds);
}

// Those of `known` that were not chosen.
std::vector<std::string> LeftOut(std::vector<std::string> known, const std::vector<std::string>& chosen) {
  std::erase_if(known, [&](const std::string& name) { return std::ranges::find(chosen, name) != chosen.end(); });
  return known;
}

// The baseline that loses the least on the test part, which did not choose it.
const Baseline& Luckiest(const StudiedTask& task) { return *std::ranges::min_element(task.baselines, {}, &Baseline::loss); }

// The same study for those in the running with four times the time.
std::string LongerStudy(const StudyResult& result, std::size_t least) {
  const ContestResult& contest = result.tasks.front().contest;
  StudyOptions longer = result.options;
  const Chosen chosen = ToGoOnWith(contest, least);
  longer.encoders = chosen.encoders, longer.step_seconds.clear();
  if (!chosen.positions.empty()) longer.positions = chosen.positions;
  if (contest.Timed()) {
    longer.seconds *= 4;
  } else {
    longer.all_steps *= 4;
  }
  return CommandOf(longer, result.words, result.folder / "longer");
}

// Which model to take with --for, see OutlookFinding; empty without.
std::string LaterFinding(const StudyResult& result, const StudiedTask& task) {
  const StudyOptions& options = result.options;
  if (options.for_seconds == 0) return {};
  return OutlookFinding(task.contest, options.for_seconds / options.seconds,
                        fmt::format("{:g} s of one core", options.for_seconds));
}

}  // namespace

const Entry& TakenOf(const ContestResult& contest) { return contest.entries[Recommend(contest).contender]; }

Worth WorthOf(const StudiedTask& task) {
  Worth worth{CompareWithMethod(task.contest, task.BestBaseline().blocks), "open", std::nullopt};
  worth.later = MayOvertake(task.contest, worth);
  // A model that a simple method beats on the same test part is worth nothing for certain.
  if (worth.ahead && Luckiest(task).loss < worth.loss) {
    worth.answer = "disputed";
  } else if (worth.apart()) {
    worth.answer = worth.ahead ? "ahead" : worth.later ? "not yet" : "behind";
  }
  return worth;
}

std::string WorthFinding(const StudyResult& result, const StudiedTask& task, const Worth& worth) {
  const Measure& measure = task.contest.at_time.ColumnOf("loss").measure;
  const Baseline &baseline = task.BestBaseline(), &luckiest = Luckiest(task);
  std::string text = TellStudy()(
      fmt::format("worth {}", worth.answer), "given"_a = Given(result, task), "taken"_a = TakenOf(task.contest).model.Phrase(),
      "loss"_a = measure.Phrase({worth.loss, worth.loss, worth.loss}), "gap"_a = measure.Text(worth.behind.gap),
      "baseline"_a = baseline.Phrase(), "other"_a = measure.Phrase({baseline.loss, baseline.loss, baseline.loss}),
      "low"_a = measure.Text(worth.behind.by_both.low), "high"_a = measure.Text(worth.behind.by_both.high));
  if (worth.later) {
    text += " " + TellStudy()("worth later", "model"_a = task.contest.entries[worth.later->contender].model.Phrase(),
                              "loss"_a = measure.Text(worth.later->loss), "times"_a = worth.later->times);
  }
  if (worth.apart() && !worth.ahead)
    text += " " + TellStudy()(worth.later ? "worth take now" : "worth take", "baseline"_a = baseline.Phrase());
  if (worth.answer == "open") text += OnOneBlock(task) + WhatWouldDecide(result, worth.behind);
  if (worth.answer != "ahead" && !baseline.looks) text += " " + TellStudy()("worth caution");
  if (luckiest.loss < std::min(worth.loss, baseline.loss))
    text += " " + TellStudy()("worth lucky", "baseline"_a = Sentence(luckiest.Phrase()), "loss"_a = measure.Text(luckiest.loss),
                              "chosen"_a = baseline.Phrase());
  return text;
}

std::string ChoiceFinding(const StudyResult& result, const StudiedTask& task, const Worth& worth) {
  const ContestResult& contest = task.contest;
  const Recommendation taken = Recommend(contest);
  const Measure& measure = contest.at_time.ColumnOf("loss").measure;
  const bool ahead = measure.Text(taken.may_lose) == measure.Text(0.0);
  const char* how = contest.entries.size() == 1      ? "take the only one"
                    : !std::isfinite(taken.may_lose) ? "take by chance"
                    : taken.decided && ahead         ? "take ahead"
                    : taken.decided                  ? "take"
                    : Running(contest).size() == 1   ? "take for now"
                                                     : "take for now of several";
  const std::string purpose = !worth.ahead ? TellStudy()("of the models") : task.question.purpose;
  std::string text = TellStudy()(how, "purpose"_a = purpose, "given"_a = Given(result, task),
                                 "taken"_a = TakenOf(contest).model.Phrase(), "price"_a = measure.Text(taken.may_lose),
                                 "margin"_a = measure.Text(contest.Margin()), "running"_a = Join(Running(contest)));
  std::vector<std::string> others;
  others.reserve(taken.as_good.size());
  for (const std::size_t i : taken.as_good) others.push_back(contest.entries[i].model.Phrase());
  if (!others.empty()) {
    text += " " + TellStudy()(contest.Timed() ? "as good and slower" : "as good", "others"_a = Join(others),
                              "margin"_a = measure.Text(contest.Margin()));
  }
  return Sentence(text);
}

std::string LengthFinding(const StudyResult& result, const StudiedTask& task) {
  const ContestResult& contest = task.contest;
  std::string text;
  for (const Column& column : contest.at_time.ColumnsOf("loss")) {
    if (column.at == 0 || column.at == result.options.context) continue;
    const std::vector<Judged> verdict =
        JudgeSome(contest, [&](const Entry& entry) { return contest.at_time.BlockLosses(entry.model, column.at); });
    if (!verdict.empty())
      text += " " + TellStudy()("lengths at", "length"_a = column.at, "standing"_a = StandingFinding(contest, verdict));
  }
  if (text.empty()) return {};
  text = TellStudy()("lengths", "context"_a = result.options.context) + text;
  const bool ends = std::ranges::any_of(contest.entries, [](const Entry& entry) { return entry.model.position == "learned"; });
  return ends ? text + " " + TellStudy()("lengths end") : text;
}

std::string LimitsFinding(const StudyResult& result) {
  const StudyOptions& options = result.options;
  const Prose& tell = TellStudy();
  std::string text = tell(options.kind == StudyKind::kText ? "limits of a text" : "limits",
                          "layers"_a = options.layers == 1 ? "one layer" : fmt::format("{} layers", options.layers),
                          "width"_a = options.width, "context"_a = options.context);
  const std::vector<std::string> encoders = LeftOut(EncoderNames(), options.encoders);
  const std::vector<std::string> schemes = LeftOut(PositionSchemeNames(), options.positions);
  if (!encoders.empty()) text += " " + tell("limits encoders", "names"_a = Join(encoders));
  if (!schemes.empty()) text += " " + tell("limits schemes", "names"_a = Join(schemes));
  const bool once =
      std::ranges::all_of(result.tasks, [](const StudiedTask& task) { return task.contest.at_time.seeds() == 1; });
  if (once) text += " " + tell("limits seed");
  if (options.rates.size() == 1) text += " " + tell("limits rate");
  return text;
}

std::string OrderFinding(const StudyResult& result) {
  constexpr double kLearns = 0.05;  // nats
  const auto task = std::ranges::find(result.tasks, "masked", &StudiedTask::id);
  if (task == result.tasks.end()) return {};
  const Measurements& measured = task->contest.at_time;
  const Column& loss = measured.ColumnOf("loss");
  const Models schemes = measured.Ranked(loss, Attending(measured.models()));
  const auto none = std::ranges::find(schemes, "none", &Contender::position);
  if (none == schemes.end()) return {};
  const Prose& tell = TellStudy();
  const double frequencies = task->baselines.front().loss;
  const auto describe = [&](const Contender& model) { return loss.measure.Text(measured.Over(model, loss)); };
  const std::string text = tell("order", "none"_a = describe(*none), "frequencies"_a = loss.measure.Text(frequencies)) + " ";
  const SizedContender& best = schemes.front();
  if (best.position == "none") return text + tell("order best");
  const double gained = frequencies - measured.Over(best, loss).mean, without = frequencies - measured.Over(*none, loss).mean;
  return text + tell(gained <= kLearns ? "order early" : "order gain", "best"_a = Sentence(best.Phrase()),
                     "loss"_a = describe(best), "percent"_a = 100 * std::max(without / gained, 0.0));
}

std::string UseCommand(const StudyResult& result) {
  const std::string model = ShellWord((result.folder / "model").string());
  if (result.options.kind == StudyKind::kTable) return fmt::format("heed predict {} NEW.csv", model);
  if (result.options.objectives.front() == "causal")
    return fmt::format("heed generate {} --prompt {}", model, ShellWord(result.data.beginning));
  return fmt::format("heed eval {} NEW.txt", model);
}

std::string NextCommand(const StudyResult& result) {
  const ContestResult& contest = result.tasks.front().contest;
  const Entry& entry = TakenOf(contest);
  const bool harms = entry.best_steps < entry.reached;
  const bool open = !Recommend(contest).decided || WorthOf(result.tasks.front()).later;
  return open && !harms ? LongerStudy(result, /*least=*/2) : "";
}

std::string AnswerTo(const StudyResult& result, const StudiedTask& task) {
  const std::string later = LaterFinding(result, task);
  const Worth worth = WorthOf(task);
  return WorthFinding(result, task, worth) + " " + ChoiceFinding(result, task, worth) + (later.empty() ? "" : " " + later);
}

std::vector<Finding> Conclusion(const StudyResult& result) {
  std::vector<Finding> findings;
  for (const StudiedTask& task : result.tasks) {
    const std::string purpose = result.tasks.size() == 1 ? "?" : ", " + task.question.purpose + "?";
    const Worth worth = WorthOf(task);
    findings.push_back({"Is it worth a model" + purpose, WorthFinding(result, task, worth)});
    findings.push_back({"Which model" + purpose, ChoiceFinding(result, task, worth)});
    findings.push_back({"Which model for a longer training?", LaterFinding(result, task)});
    findings.push_back({"How far are they apart?", TimeFinding(task.contest, result.options.seconds)});
    findings.push_back({"Which positional encoding for attention?", SchemeFinding(task.contest)});
    findings.push_back({"What would more training bring?", GainFinding(task.contest)});
    findings.push_back({"What happens in longer windows than in training?", LengthFinding(result, task)});
    findings.push_back({"Which learning rates?", RateFinding(task.contest)});
    findings.push_back({"How fast?", PaceFinding(task.contest)});
  }
  findings.push_back({"Does attention need positions?", OrderFinding(result)});
  findings.push_back({"Are all parts of the data alike?", result.data.drift});
  findings.push_back({"What did the study not test?", LimitsFinding(result)});
  std::erase_if(findings, [](const Finding& finding) { return finding.answer.empty(); });
  return findings;
}

}  // namespace heed::lab
