// study_replay RECORD..: holds many studies of each record at several budgets, as `heed study` holds them live, and tells how
// often they decide, whether the stated price holds, and what the recommended model loses to the best.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/study/replay.h"
#include "lab/runs/contest.h"

namespace heed::bench {
namespace {

struct Protocol {
  std::vector<double> shares = {0.25, 1, 4};  // of the recorded budget, rising
  double tolerance = 0.01;
  int64_t seeds = 4;
};

// What one study says at one budget.
struct Answer {
  lab::Recommendation taken;
  double lost;                        // by who takes it, to the best in truth
  int worth;                          // 1: the model is better than the baseline, -1: worse, 0: open
  std::vector<std::size_t> foreseen;  // may lead at the next budget, by the curves of this one
};

Answer HoldOne(const Record& record, std::size_t share, uint64_t seed, const std::vector<double>& truth,
               const Protocol& protocol) {
  const RecordedContest contest(record, seed);
  lab::ContestOptions options;
  options.seconds = protocol.shares[share] * record.seconds, options.rates = record.rates;
  options.tolerance = protocol.tolerance;
  for (const lab::SizedContender& model : contest.models) options.step_seconds.push_back(contest.StepSeconds(model));
  options.seed = 1, options.seeds = protocol.seeds;
  const lab::ContestResult result = lab::Hold("replay", contest, options, nullptr);
  Answer answer{.taken = lab::Recommend(result), .lost = 0, .worth = 0, .foreseen = {}};
  answer.lost = truth[answer.taken.contender] - *std::ranges::min_element(truth);
  const auto baseline = std::ranges::min_element(record.baselines, {}, &lab::Baseline::validation);
  const lab::Compared worth = lab::CompareWithMethod(result, contest.Drawn(baseline->blocks));
  if (worth.apart() && !lab::MayOvertake(result, worth)) answer.worth = worth.ahead ? 1 : -1;
  if (share + 1 < protocol.shares.size())
    answer.foreseen = lab::OutlookOf(result, protocol.shares[share + 1] / protocol.shares[share]).Near();
  return answer;
}

struct Budget {
  std::vector<double> truth;  // of each model
  double margin;              // within which two are as good as each other
  std::vector<Answer> answers;
};

void PrintBudget(const Record& record, double share, const Budget& budget) {
  const auto& [truth, margin, answers] = budget;
  const auto percent = [](const std::vector<Answer>& of, auto holds) {
    return 100.0 * static_cast<double>(std::ranges::count_if(of, holds)) / static_cast<double>(of.size());
  };
  const auto as_good = [within = margin](const Answer& answer) { return answer.lost <= within; };
  constexpr double kPrinted = 0.0005;  // a page has three digits behind the point
  const auto held = [](const Answer& answer) { return answer.lost <= answer.taken.may_lose + kPrinted; };
  std::vector<Answer> decided = answers;
  std::erase_if(decided, [](const Answer& answer) { return !answer.taken.decided; });
  double regret = 0, worst = 0;  // in margins
  for (const Answer& answer : answers) regret += answer.lost / margin, worst = std::max(worst, answer.lost / margin);
  std::printf("  %5g of the budget: decided %3.0f %%", share,
              percent(answers, [](const Answer& answer) { return answer.taken.decided; }));
  if (!decided.empty())
    std::printf(", of these within the tolerance of the best %5.1f %% and the price held %5.1f %%", percent(decided, as_good),
                percent(decided, held));
  std::printf("; of all %3.0f and %5.1f %%; regret %.2f tolerances (at most %.1f); worth %3.0f %%, not worth %3.0f %%\n",
              percent(answers, as_good), percent(answers, held), regret / static_cast<double>(answers.size()), worst,
              percent(answers, [](const Answer& answer) { return answer.worth > 0; }),
              percent(answers, [](const Answer& answer) { return answer.worth < 0; }));
  for (std::size_t i = 0; i < truth.size(); ++i)
    std::printf("%s%s %.4g (taken %.0f %%)", i == 0 ? "        " : "; ", record.models[i].model.Label().c_str(), truth[i],
                percent(answers, [i](const Answer& answer) { return answer.taken.contender == i; }));
  std::printf("\n");
}

// Whether `later`, decided as `earlier` is, takes another model, and that of `earlier` is not as good by then.
bool Turns(const Answer& earlier, const Answer& later, const Budget& by_then) {
  if (!earlier.taken.decided || !later.taken.decided || earlier.taken.contender == later.taken.contender) return false;
  return by_then.truth[earlier.taken.contender] - std::ranges::min(by_then.truth) > by_then.margin;
}

// How often the answers of one study at rising budgets contradict each other.
void PrintTurns(const std::vector<Budget>& budgets) {
  int64_t worth = 0, winner = 0, foreseen = 0;
  for (std::size_t i = 0; i < budgets.front().answers.size(); ++i) {
    bool better = false, worse = false;
    for (const Budget& budget : budgets) better |= budget.answers[i].worth > 0, worse |= budget.answers[i].worth < 0;
    worth += better && worse;
    for (std::size_t share = 1; share < budgets.size(); ++share) {
      const Answer &earlier = budgets[share - 1].answers[i], &later = budgets[share].answers[i];
      if (!Turns(earlier, later, budgets[share])) continue;
      ++winner;
      foreseen += std::ranges::find(earlier.foreseen, later.taken.contender) != earlier.foreseen.end();
    }
  }
  std::printf("  of %zu studies %lld turn in whether a model is worth it; %lld decided winners change, %lld of them foreseen\n",
              budgets.front().answers.size(), static_cast<long long>(worth), static_cast<long long>(winner),
              static_cast<long long>(foreseen));
}

void Replay(const Record& record, int64_t studies, const Protocol& protocol) {
  std::printf("%s, %g s\n", record.name.c_str(), record.seconds);
  std::vector<Budget> budgets;
  for (std::size_t share = 0; share < protocol.shares.size(); ++share) {
    Budget budget{TruthOf(record, protocol.shares[share]), 0, {}};
    budget.margin = lab::MarginOf(protocol.tolerance, std::ranges::min(budget.truth), record.simple_loss);
    for (int64_t i = 0; i < studies; ++i)
      budget.answers.push_back(HoldOne(record, share, static_cast<uint64_t>(i), budget.truth, protocol));
    PrintBudget(record, protocol.shares[share], budget);
    budgets.push_back(std::move(budget));
  }
  PrintTurns(budgets);
}

}  // namespace
}  // namespace heed::bench

int main(int count, char** words) {
  CLI::App app("Replays studies of recorded trainings");
  std::vector<std::string> records;
  int64_t studies = 200;
  heed::bench::Protocol protocol;
  app.add_option("RECORD", records, "Files of study_record")->required();
  app.add_option("--studies", studies, "How many of each");
  app.add_option("--shares", protocol.shares, "Of the recorded budget")->delimiter(',');
  app.add_option("--tolerance", protocol.tolerance, "As heed study has it");
  app.add_option("--seeds", protocol.seeds, "As heed study has it");
  CLI11_PARSE(app, count, words);
  try {
    for (const std::string& record : records) heed::bench::Replay(heed::bench::ReadRecord(record), studies, protocol);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "study_replay: %s\n", error.what());
    return 1;
  }
}
