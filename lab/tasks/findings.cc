#include "lab/tasks/findings.h"

#include <algorithm>
#include <functional>

#include <fmt/core.h>

namespace heed::lab {
namespace {

bool MoreIsBetter(const TaskFacts& facts) { return facts.measure == Measure::kAccuracy; }

bool Better(const TaskFacts& facts, double a, double b) { return MoreIsBetter(facts) ? a > b : a < b; }

// The seed that fares worst.
double Worst(const TaskFacts& facts, const Spread& spread) { return MoreIsBetter(facts) ? spread.low : spread.high; }
double Best(const TaskFacts& facts, const Spread& spread) { return MoreIsBetter(facts) ? spread.high : spread.low; }

bool Solves(const TaskFacts& facts, const Spread& spread) { return !Better(facts, facts.solved, Worst(facts, spread)); }

// Within a tenth of what lies between chance and a perfect score, or worse.
bool AtChance(const TaskFacts& facts, const Spread& spread) {
  const double perfect = MoreIsBetter(facts) ? 1 : 0;
  return !Better(facts, spread.mean, facts.chance + 0.1 * (perfect - facts.chance));
}

// Errors span powers of ten.
std::string Show(const TaskFacts& facts, const Spread& spread) {
  if (MoreIsBetter(facts)) return Describe(spread, 2);
  if (spread.low == spread.high) return fmt::format("{:.2g}", spread.mean);
  return fmt::format("{:.2g} ({:.2g} to {:.2g})", spread.mean, spread.low, spread.high);
}

std::string Names(const TaskFacts& facts, const std::vector<const TaskModelResult*>& models, std::size_t length) {
  std::vector<std::string> names;
  names.reserve(models.size());
  for (const TaskModelResult* model : models) {
    names.push_back(fmt::format("{} ({})", model->model.Phrase(), Show(facts, model->Score(length))));
  }
  return Join(names);
}

std::vector<const TaskModelResult*> Select(const TaskResult& task, std::size_t length,
                                           const std::function<bool(const TaskModelResult&)>& wanted) {
  std::vector<const TaskModelResult*> models = Ranked(task, length);
  std::erase_if(models, [&](const TaskModelResult* model) { return !wanted(*model); });
  return models;
}

std::string Steps(int64_t count) { return fmt::format("{} step{}", count, count == 1 ? "" : "s"); }

const TaskModelResult* BestOf(const TaskResult& task, std::size_t length, const std::string& family) {
  const auto models = Select(task, length, [&](const TaskModelResult& m) { return m.model.Family() == family; });
  return models.empty() ? nullptr : models.front();
}

// In the order of the options.
std::vector<std::string> OtherFamilies(const TasksResult& result) {
  std::vector<std::string> families;
  for (const Contender& contender : Contenders(result.options.encoders, {"none"})) {
    const std::string family = contender.Family();
    if (!contender.attends() && std::find(families.begin(), families.end(), family) == families.end()) {
      families.push_back(family);
    }
  }
  return families;
}

// "parity (the GRU 1.00, attention with ALiBi 0.71)".
std::string Duel(const TaskFacts& facts, const TaskModelResult& winner, const TaskModelResult& loser, std::size_t length) {
  std::string name = facts.name;
  if (name[0] >= 'A' && name[0] <= 'Z') name[0] = static_cast<char>(name[0] - 'A' + 'a');
  return fmt::format("{} ({} {}, {} {})", name, winner.model.Phrase(), Show(facts, winner.Score(length)), loser.model.Phrase(),
                     Show(facts, loser.Score(length)));
}

std::string FamilySentence(const TasksResult& result, const std::string& family, std::size_t length) {
  std::vector<std::string> wins, losses, ties;
  for (const TaskResult& task : result.tasks) {
    const TaskFacts& facts = task.task->facts();
    const TaskModelResult *other = BestOf(task, length, family), *attention = BestOf(task, length, "attention");
    if (other == nullptr || attention == nullptr) continue;
    const Spread a = attention->Score(length), b = other->Score(length);
    const bool at_chance = AtChance(facts, a) && AtChance(facts, b);
    if (!at_chance && Better(facts, Worst(facts, b), Best(facts, a))) {
      wins.push_back(Duel(facts, *other, *attention, length));
    } else if (!at_chance && Better(facts, Worst(facts, a), Best(facts, b))) {
      losses.push_back(Duel(facts, *attention, *other, length));
    } else {
      ties.push_back(facts.name);
    }
  }
  std::vector<std::string> parts;
  if (!wins.empty()) parts.push_back("beats attention at " + Join(wins));
  if (!losses.empty()) parts.push_back("loses at " + Join(losses));
  if (!ties.empty()) {
    parts.push_back(fmt::format("cannot be told apart from it at {} of the {} tasks", ties.size(), result.tasks.size()));
  }
  return parts.empty() ? "" : Sentence(family) + " " + Join(parts) + ".";
}

}  // namespace

std::vector<const TaskModelResult*> Ranked(const TaskResult& task, std::size_t length) {
  std::vector<const TaskModelResult*> models;
  for (const TaskModelResult& model : task.models) {
    if (model.Reaches(length)) models.push_back(&model);
  }
  std::stable_sort(models.begin(), models.end(), [&](const TaskModelResult* a, const TaskModelResult* b) {
    return Better(task.task->facts(), a->Score(length).mean, b->Score(length).mean);
  });
  return models;
}

std::string TaskFinding(const TaskResult& task, const TasksResult& result) {
  const TaskFacts& facts = task.task->facts();
  const std::size_t trained = result.TrainingLength(), longest = result.options.lengths.size() - 1;
  const auto solve = [&](std::size_t at) {
    return Select(task, at, [&facts, at](const TaskModelResult& m) { return Solves(facts, m.Score(at)); });
  };
  const auto solvers = solve(trained);
  const auto ranked = Ranked(task, trained);
  std::string text = fmt::format("At the {} of the training, ", Steps(result.options.length));
  if (solvers.empty()) {
    text += fmt::format("no model solves it in {} steps of training; {} comes nearest ({}).", result.options.steps,
                        ranked.front()->model.Phrase(), Show(facts, ranked.front()->Score(trained)));
  } else {
    text += fmt::format("{} of {} models solve it with every seed: {}.", solvers.size(), task.models.size(),
                        Names(facts, solvers, trained));
  }
  const auto lost = Select(task, trained, [&](const TaskModelResult& m) { return AtChance(facts, m.Score(trained)); });
  if (!lost.empty()) text += fmt::format(" No better than chance: {}.", Names(facts, lost, trained));
  if (longest == trained) return text;
  const auto lasting = solve(longest);
  if (!lasting.empty()) {
    return text + fmt::format(" At {}, {} still {} it.", Steps(result.options.lengths[longest]), Names(facts, lasting, longest),
                              lasting.size() == 1 ? "solves" : "solve");
  }
  const auto left = Ranked(task, longest);
  if (left.empty()) return text;
  if (AtChance(facts, left.front()->Score(longest))) {
    return text + fmt::format(" At {} no model does better than chance.", Steps(result.options.lengths[longest]));
  }
  return text + fmt::format(" At {} no model solves it; {} is best ({}).", Steps(result.options.lengths[longest]),
                            left.front()->model.Phrase(), Show(facts, left.front()->Score(longest)));
}

std::string FamilyFinding(const TasksResult& result, std::size_t length) {
  std::string text;
  for (const std::string& family : OtherFamilies(result)) {
    const std::string sentence = FamilySentence(result, family, length);
    if (!sentence.empty()) text += (text.empty() ? "" : " ") + sentence;
  }
  if (text.empty()) return {};
  return fmt::format("At {}, the best of each kind: ", Steps(result.options.lengths[length])) + text;
}

std::string SchemeFinding(const TasksResult& result) {
  const std::size_t trained = result.TrainingLength();
  std::vector<std::string> needed;
  int64_t compared = 0;
  for (const TaskResult& task : result.tasks) {
    const TaskFacts& facts = task.task->facts();
    const auto without =
        Select(task, trained, [](const TaskModelResult& m) { return m.model.attends() && m.model.position == "none"; });
    const auto with =
        Select(task, trained, [](const TaskModelResult& m) { return m.model.attends() && m.model.position != "none"; });
    if (without.empty() || with.empty()) continue;
    ++compared;
    const Spread none = without.front()->Score(trained), best = with.front()->Score(trained);
    if (Better(facts, Worst(facts, best), Best(facts, none))) {
      needed.push_back(fmt::format("{} ({} with {}, {} without)", facts.name, Show(facts, best),
                                   SchemeLabel(with.front()->model.position), Show(facts, none)));
    }
  }
  if (compared == 0) return {};
  if (needed.empty()) return fmt::format("At none of {} tasks does a notion of order help attention.", compared);
  return fmt::format("A notion of order helps attention at {} of {} tasks: {}.", needed.size(), compared, Join(needed));
}

std::string TasksConclusion(const TasksResult& result) {
  std::string text = "On synthetic tasks: ";
  const std::string families = FamilyFinding(result, result.TrainingLength()), schemes = SchemeFinding(result);
  if (families.empty() && schemes.empty()) return {};
  if (!families.empty()) text += families + (schemes.empty() ? "" : " ");
  return text + schemes;
}

}  // namespace heed::lab
