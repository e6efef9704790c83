#include "book/tasks/output.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/core.h>

namespace heed::lab {
namespace {

// The scores of a task at one length, by what its facts make of them.
class Scores {
 public:
  Scores(const TaskResult& task, int64_t length)
      : facts_(task.task->facts()), measure_(facts_.measure()), measured_(task.scores), column_(task.At(length)) {}

  Spread Of(const Contender& model) const { return measured_.Over(model, column_); }
  bool Solves(const Contender& model) const { return !measure_.Better(facts_.solved, measure_.Worst(Of(model))); }
  // Within a tenth of what lies between chance and a perfect score, or worse.
  bool AtChance(const Contender& model) const {
    const double perfect = measure_.more_is_better ? 1 : 0;
    return !measure_.Better(Of(model).mean, facts_.chance + 0.1 * (perfect - facts_.chance));
  }
  // Whether the worst seed of a is better than the best of b.
  bool Beats(const Contender& a, const Contender& b) const {
    return measure_.Better(measure_.Worst(Of(a)), measure_.Best(Of(b)));
  }

  // The best first.
  Models Where(const std::function<bool(const Contender&)>& wanted) const {
    Models models = measured_.Ranked(column_);
    std::erase_if(models, [&](const Contender& model) { return !wanted(model); });
    return models;
  }
  std::optional<Contender> Best(const std::function<bool(const Contender&)>& wanted) const {
    const Models models = Where(wanted);
    return models.empty() ? std::nullopt : std::optional<Contender>(models.front());
  }
  std::optional<Contender> BestOf(const std::string& family) const {
    return Best([&](const Contender& model) { return model.Family() == family; });
  }

  std::string Show(const Contender& model) const { return measure_.Text(Of(model)); }
  // "the GRU (0.99), attention with ALiBi (0.98)".
  std::string Names(const Models& models) const {
    std::vector<std::string> names;
    for (const Contender& model : models) names.push_back(fmt::format("{} ({})", model.Phrase(), Show(model)));
    return Join(names);
  }
  // "parity (the GRU 1.00, attention with ALiBi 0.71)".
  std::string Duel(const Contender& winner, const Contender& loser) const {
    std::string name = facts_.name;
    if (name[0] >= 'A' && name[0] <= 'Z') name[0] = static_cast<char>(name[0] - 'A' + 'a');
    return fmt::format("{} ({} {}, {} {})", name, winner.Phrase(), Show(winner), loser.Phrase(), Show(loser));
  }

 private:
  const TaskFacts& facts_;
  const Measure& measure_;
  const Measurements& measured_;
  Column column_;
};

bool Any(const Contender& /*model*/) { return true; }

std::string Steps(int64_t count) { return fmt::format("{} step{}", count, count == 1 ? "" : "s"); }

// In the order of the options.
std::vector<std::string> OtherFamilies(const TaskOptions& options) {
  std::vector<std::string> families;
  for (const Contender& contender : Contenders(options.encoders, {"none"})) {
    const std::string family = contender.Family();
    if (!contender.attends() && std::ranges::find(families, family) == families.end()) families.push_back(family);
  }
  return families;
}

std::string FamilySentence(const TasksResult& result, const std::string& family, int64_t length) {
  std::vector<std::string> wins, losses;
  int64_t ties = 0;
  for (const TaskResult& task : result.tasks) {
    const Scores scores(task, length);
    const auto other = scores.BestOf(family), attention = scores.BestOf("attention");
    if (!other || !attention) continue;
    const bool at_chance = scores.AtChance(*attention) && scores.AtChance(*other);
    if (!at_chance && scores.Beats(*other, *attention)) {
      wins.push_back(scores.Duel(*other, *attention));
    } else if (!at_chance && scores.Beats(*attention, *other)) {
      losses.push_back(scores.Duel(*attention, *other));
    } else {
      ++ties;
    }
  }
  std::vector<std::string> parts;
  if (!wins.empty()) parts.push_back("beats attention at " + Join(wins));
  if (!losses.empty()) parts.push_back("loses at " + Join(losses));
  if (ties > 0) parts.push_back(fmt::format("cannot be told apart from it at {} of the {} tasks", ties, result.tasks.size()));
  return parts.empty() ? "" : Sentence(family) + " " + Join(parts) + ".";
}

std::string AtTraining(const Scores& scores, const Models& models, const TaskOptions& options) {
  const Models solvers = scores.Where([&](const Contender& model) { return scores.Solves(model); });
  const Models lost = scores.Where([&](const Contender& model) { return scores.AtChance(model); });
  std::string text = fmt::format("At the {} of the training, ", Steps(options.length));
  if (solvers.empty()) {
    const Contender best = scores.Best(Any).value();
    text += fmt::format("no model solves it in {} steps of training; {} comes nearest ({}).", options.steps, best.Phrase(),
                        scores.Show(best));
  } else {
    text += fmt::format("{} of {} models solve it with every seed: {}.", solvers.size(), models.size(), scores.Names(solvers));
  }
  return lost.empty() ? text : text + fmt::format(" No better than chance: {}.", scores.Names(lost));
}

std::string AtLongest(const Scores& scores, int64_t longest) {
  const Models solvers = scores.Where([&](const Contender& model) { return scores.Solves(model); });
  const std::optional<Contender> best = scores.Best(Any);
  if (!best) return {};
  if (!solvers.empty()) {
    return fmt::format(" At {}, {} still {} it.", Steps(longest), scores.Names(solvers),
                       solvers.size() == 1 ? "solves" : "solve");
  }
  if (scores.AtChance(*best)) return fmt::format(" At {} no model does better than chance.", Steps(longest));
  return fmt::format(" At {} no model solves it; {} is best ({}).", Steps(longest), best->Phrase(), scores.Show(*best));
}

}  // namespace

std::string TaskFinding(const TaskResult& task, const TaskOptions& options) {
  const int64_t longest = options.lengths.back();
  const std::string text = AtTraining(Scores(task, options.length), task.scores.models(), options);
  return longest == options.length ? text : text + AtLongest(Scores(task, longest), longest);
}

std::string FamilyFinding(const TasksResult& result, int64_t length) {
  std::string text;
  for (const std::string& family : OtherFamilies(result.options)) {
    const std::string sentence = FamilySentence(result, family, length);
    if (!sentence.empty()) text += (text.empty() ? "" : " ") + sentence;
  }
  return text.empty() ? text : fmt::format("At {}, the best of each kind: {}", Steps(length), text);
}

std::string SchemeFinding(const TasksResult& result) {
  std::vector<std::string> needed;
  int64_t compared = 0;
  for (const TaskResult& task : result.tasks) {
    const Scores scores(task, result.options.length);
    const auto without = scores.Best([](const Contender& model) { return model.attends() && model.position == "none"; });
    const auto with = scores.Best([](const Contender& model) { return model.attends() && model.position != "none"; });
    if (!without || !with) continue;
    ++compared;
    if (!scores.Beats(*with, *without)) continue;
    needed.push_back(fmt::format("{} ({} with {}, {} without)", task.task->facts().name, scores.Show(*with),
                                 SchemeLabel(with->position), scores.Show(*without)));
  }
  if (compared == 0) return {};
  if (needed.empty()) return fmt::format("At none of {} tasks does a positional encoding help attention.", compared);
  return fmt::format("A positional encoding helps attention at {} of {} tasks: {}.", needed.size(), compared, Join(needed));
}

std::string CertaintyFinding(const TasksResult& result) {
  if (result.options.seeds == 1) return "One run of each at one learning rate: another seed or rate may reverse the order.";
  return fmt::format("Over {} seeds, at one learning rate for all.", result.options.seeds);
}

std::vector<std::string> TasksFindings(const TasksResult& result) {
  const int64_t trained = result.options.length, longest = result.longest();
  std::vector<std::string> findings = {FamilyFinding(result, trained),
                                       longest == trained ? std::string() : FamilyFinding(result, longest),
                                       SchemeFinding(result)};
  std::erase(findings, std::string());
  if (!findings.empty()) findings.push_back(CertaintyFinding(result));
  return findings;
}

std::string TasksConclusion(const TasksResult& result) {
  std::string text;
  for (const std::string& finding : {FamilyFinding(result, result.options.length), SchemeFinding(result)}) {
    if (!finding.empty()) text += (text.empty() ? "On synthetic tasks: " : " ") + finding;
  }
  return text.empty() ? text : text + " " + CertaintyFinding(result);
}

}  // namespace heed::lab
