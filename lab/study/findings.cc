#include "lab/study/findings.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "lab/report/shell_word.h"
#include "lab/runs/contest_page.h"
#include "lab/study/plan.h"
#include "lab/study/run.h"

namespace heed::lab {
namespace {

const SizedContender& LeaderOf(const ContestResult& contest) {
  return contest.entries[contest.verdict.front().contender].model;
}

// What needs no training for an objective: its name and its losses on the blocks.
struct Counting {
  std::string name;
  bool several;  // in grammar
  const std::vector<double>& losses;
};
Counting CountingFor(const StudyResult& result, Objective objective) {
  if (objective == Objective::kMasked) return {"the frequencies of characters", true, result.counted.frequencies};
  return {CountingName(result.counted), false, result.counted.losses};
}

// How far the leader and counting are apart, judged as if counting were one more contender, on which every seed agrees.
struct Worth {
  bool ahead;     // whether the leader is
  Judged behind;  // the one that is not
};
Worth WorthOf(const StudyResult& result, Objective objective) {
  const ContestResult& contest = *result.Of(objective);
  std::vector<Score> scores;
  scores.reserve(contest.entries.size() + 1);
  for (const Entry& entry : contest.entries) scores.push_back({BlockLosses(contest.at_time, entry.model), NAN});
  const std::size_t leader = contest.verdict.front().contender, counting = scores.size();
  const auto seeds = static_cast<std::size_t>(contest.at_time.seeds());
  scores.push_back({std::vector<std::vector<double>>(seeds, CountingFor(result, objective).losses), NAN});
  const std::vector<Judged> judged = Judge(scores, contest.weights);
  const bool ahead = judged.front().contender == leader;
  return {ahead, *std::ranges::find(judged, ahead ? counting : leader, &Judged::contender)};
}

std::string Given(const StudyResult& result, Objective objective) {
  return BudgetInWords(*result.Of(objective), result.options.seconds);
}

std::string Purpose(Objective objective) {
  return objective == Objective::kCausal ? "to predict the next character" : "to fill in hidden characters";
}

}  // namespace

std::string WorthFinding(const StudyResult& result, Objective objective) {
  const ContestResult& contest = *result.Of(objective);
  const Counting counting = CountingFor(result, objective);
  const Worth worth = WorthOf(result, objective);
  const double counted = MeanOf(counting.losses), leading = contest.verdict.front().loss;
  const std::string given = Given(result, objective), leader = LeaderOf(contest).Phrase();
  const bool apart = worth.behind.standing == Standing::kBehind;
  if (apart && worth.ahead) {
    return fmt::format(
        "A model is worth training: after {} {} loses {:.3f} nats per character, {:.3f} less than {}, which {} no training "
        "({:.3f} to {:.3f} less with other seeds and other text).",
        given, leader, leading, worth.behind.gap, counting.name, counting.several ? "need" : "needs", worth.behind.by_both.low,
        worth.behind.by_both.high);
  }
  if (apart) {
    return fmt::format(
        "Counting does better than any model at this budget: {} {} {:.3f} nats per character without a training; after {} "
        "the best model, {}, loses {:.3f}.",
        counting.name, counting.several ? "lose" : "loses", counted, given, leader, leading);
  }
  return fmt::format(
      "Whether a model is worth training is open: {} {} {:.3f} nats per character, {} after {} {:.3f}, and other seeds or "
      "another text may turn that round.",
      counting.name, counting.several ? "lose" : "loses", counted, leader, given, leading);
}

std::string ChoiceFinding(const StudyResult& result, Objective objective) {
  const ContestResult& contest = *result.Of(objective);
  const std::vector<const Entry*> running = contest.InTheRunning();
  const std::string given = Given(result, objective);
  if (contest.entries.size() == 1)
    return fmt::format("{} is the only model that was studied.", Sentence(LeaderOf(contest).Phrase()));
  if (running.size() == 1) {
    return fmt::format("{}, take {}: after {} it is ahead of all others.", Sentence(Purpose(objective)),
                       LeaderOf(contest).Phrase(), given);
  }
  if (running.size() == contest.entries.size()) {
    return fmt::format("{}, after {}, no model can be told to be the best: {} has the least loss.",
                       Sentence(Purpose(objective)), given, LeaderOf(contest).Phrase());
  }
  return fmt::format("{}, after {}, it cannot be told which of {} is best.", Sentence(Purpose(objective)), given,
                     Join(Running(contest)));
}

std::string LengthFinding(const StudyResult& result, Objective objective) {
  const ContestResult& contest = *result.Of(objective);
  std::string text;
  for (const Column& column : contest.at_time.ColumnsOf("loss")) {
    if (column.at == result.options.context) continue;
    const std::vector<Judged> verdict =
        JudgeSome(contest, [&](const Entry& entry) { return LossesAt(contest.at_time, entry.model, column.at); });
    if (!verdict.empty())
      text += fmt::format("{}In windows of {}: {}", text.empty() ? "" : " ", column.at, StandingFinding(contest, verdict));
  }
  if (text.empty()) return {};
  text = fmt::format("Trained in windows of {} characters, and measured in longer ones. {}", result.options.context, text);
  for (const Entry& entry : contest.entries) {
    if (entry.model.position == "learned") text += " The table of learned positions ends with the windows of the training.";
  }
  return text;
}

std::string LimitsFinding(const StudyResult& result) {
  const StudyOptions& options = result.options;
  std::vector<std::string> schemes, encoders;
  for (const std::string& scheme : PositionSchemeNames()) {
    if (std::ranges::find(options.positions, scheme) == options.positions.end()) schemes.push_back(scheme);
  }
  for (const std::string& encoder : EncoderNames()) {
    if (std::ranges::find(options.encoders, encoder) == options.encoders.end()) encoders.push_back(encoder);
  }
  std::string text = fmt::format(
      "Not tested: other sizes than {} of width {}, training in windows longer than {} characters, more training than "
      "this, other texts.",
      options.layers == 1 ? "one layer" : fmt::format("{} layers", options.layers), options.width, options.context);
  if (!encoders.empty()) text += fmt::format(" Encoders left out: {}.", Join(encoders));
  if (!schemes.empty()) text += fmt::format(" Positional encodings left out: {}.", Join(schemes));
  if (options.seeds == 1) text += " With one seed nothing can be told apart.";
  if (options.rates.size() == 1) text += " All models trained with one learning rate, which may suit some of them better.";
  return text;
}

std::string OrderFinding(const StudyResult& result) {
  const ContestResult* contest = result.Of(Objective::kMasked);
  if (contest == nullptr) return {};
  const Measurements& measured = contest->at_time;
  const Column& loss = measured.ColumnOf("loss");
  const Models schemes = measured.Ranked(loss, Attending(measured.models()));
  const auto none = std::ranges::find(schemes, "none", &Contender::position);
  if (none == schemes.end()) return {};
  const double frequencies = MeanOf(result.counted.frequencies);
  const auto describe = [&](const Contender& model) { return loss.measure.Text(measured.Over(model, loss)); };
  std::string text = fmt::format(
      "At hidden characters, attention without positions reaches {} nats; the frequencies of characters "
      "alone give {:.3f}.",
      describe(*none), frequencies);
  const SizedContender& best = schemes.front();
  if (best.position == "none") return text + " No scheme does better.";
  const double gained = frequencies - measured.Over(best, loss).mean, without = frequencies - measured.Over(*none, loss).mean;
  text += fmt::format(" {} reaches {}.", Sentence(best.Phrase()), describe(best));
  if (gained <= 0.05) return text + " No scheme is far from the frequencies yet: more steps are needed to tell them apart.";
  return text + fmt::format(" Without positions the gain over the frequencies is {:.0f} % of that.",
                            100 * std::max(without / gained, 0.0));
}

std::string NextCommand(const StudyResult& result) {
  const ContestResult& contest = result.contests.front();
  const StudyOptions& options = result.options;
  const bool undecided =
      std::ranges::any_of(contest.verdict, [](const Judged& judged) { return judged.standing == Standing::kUndecided; });
  if (undecided) {
    StudyOptions longer = options;
    const Chosen chosen = ToGoOnWith(contest, /*least=*/1);
    longer.encoders = chosen.encoders, longer.step_seconds.clear();
    if (!chosen.positions.empty()) longer.positions = chosen.positions;
    if (contest.Timed()) {
      longer.seconds = 4 * options.seconds;
    } else {
      longer.all_steps = 4 * options.all_steps;
    }
    return CommandOf(longer, result.path, result.folder / "longer");
  }
  const Entry& entry = contest.entries[contest.verdict.front().contender];
  const TrainOptions training =
      TrainingOf(options, ParseObjective(options.objectives.front()), {entry.model, entry.steps, entry.rate, options.seed});
  const ModelOptions& model = training.model;
  std::string command = "heed train";
  if (!result.path.empty()) command += " " + ShellWord(result.path);
  return command + fmt::format(
                       " --objective {} --encoder {} --position {} --layers {} --heads {} --width {} --ffn-width {} "
                       "--context {} --batch {} --lr {:g} --steps {} --out {}",
                       ToString(model.objective), model.encoder, model.position, model.layers, model.heads, model.width,
                       model.ffn_width, model.context, training.batch, training.lr, training.steps,
                       ShellWord((result.folder / "model").string()));
}

std::string Answer(const StudyResult& result) {
  const Objective objective = ParseObjective(result.options.objectives.front());
  return WorthFinding(result, objective) + " " + ChoiceFinding(result, objective);
}

std::vector<Finding> Conclusion(const StudyResult& result) {
  std::vector<Finding> findings;
  for (const std::string& name : result.options.objectives) {
    const Objective objective = ParseObjective(name);
    const std::string purpose = Purpose(objective);
    findings.push_back({fmt::format("Is it worth a model, {}?", purpose), WorthFinding(result, objective)});
    findings.push_back({fmt::format("Which one, {}?", purpose), ChoiceFinding(result, objective)});
    findings.push_back({"How far are they apart?", TimeFinding(*result.Of(objective), result.options.seconds)});
    findings.push_back({"Which positional encoding for attention?", SchemeFinding(*result.Of(objective))});
    findings.push_back({"What would more training bring?", GainFinding(*result.Of(objective))});
    findings.push_back({"And after equal steps?", StepsFinding(*result.Of(objective))});
    findings.push_back({"And in longer windows than in training?", LengthFinding(result, objective)});
    findings.push_back({"Which learning rates?", RateFinding(*result.Of(objective))});
    findings.push_back({"How fast?", PaceFinding(*result.Of(objective))});
  }
  findings.push_back({"Does attention need to be told the order?", OrderFinding(result)});
  findings.push_back({"What is left open?", LimitsFinding(result)});
  return Answered(findings);
}

}  // namespace heed::lab
