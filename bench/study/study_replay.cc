// study_replay RECORD..: holds many studies of each record at several budgets, as `heed study` holds them live, and tells how
// often they decide, whether the stated price holds, and what the recommended model loses to the best.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "bench/study/replay.h"
#include "lab/training/divergence.h"

namespace heed::bench {
namespace {

struct Tally {
  int64_t studies = 0, decided = 0, held = 0, best = 0;
  int64_t worth = 0, not_worth = 0;  // where that is decided
  double regret = 0, worst = 0;      // shares of the best loss
};

void HoldOne(const Record& record, double share, uint64_t seed, const std::vector<double>& truth, double tolerance,
             Tally& tally) {
  const RecordedContest contest(record, seed);
  lab::ContestOptions options;
  options.seconds = share * record.seconds, options.rates = record.rates, options.tolerance = tolerance;
  for (const lab::SizedContender& model : contest.models) options.step_seconds.push_back(contest.StepSeconds(model));
  options.conduct = {.seed = 1, .seeds = 4, .threads = 1, .quiet = true};
  const lab::ContestResult result = lab::Hold("replay", contest, options, nullptr);
  const lab::Recommendation taken = lab::Recommend(result);
  const double least = *std::ranges::min_element(truth), lost = truth[taken.contender] - least;
  ++tally.studies, tally.decided += taken.decided, tally.held += lost <= taken.may_lose + 1e-9, tally.best += lost <= 0;
  tally.regret += lost / std::abs(least), tally.worst = std::max(tally.worst, lost / std::abs(least));
  const auto baseline = std::ranges::min_element(record.baselines, {}, &lab::Baseline::validation);
  const lab::Compared worth = lab::CompareWithMethod(result, contest.Drawn(baseline->blocks));
  tally.worth += worth.apart() && worth.ahead, tally.not_worth += worth.apart() && !worth.ahead;
}

void Replay(const Record& record, int64_t studies, const std::vector<double>& shares, double tolerance) {
  std::printf("%s\n", record.name.c_str());
  for (const double share : shares) {
    const std::vector<double> truth = TruthOf(record, share);
    Tally tally;
    for (int64_t i = 0; i < studies; ++i) HoldOne(record, share, static_cast<uint64_t>(i), truth, tolerance, tally);
    const double of = 100.0 / static_cast<double>(tally.studies);
    std::printf(
        "  %5g of the budget: decided %3.0f %%, price held %5.1f %%, the best %3.0f %%, regret %.2f %% (at most %.1f), "
        "worth %3.0f %%, not worth %3.0f %%\n",
        share, of * static_cast<double>(tally.decided), of * static_cast<double>(tally.held),
        of * static_cast<double>(tally.best), of * tally.regret, 100 * tally.worst, of * static_cast<double>(tally.worth),
        of * static_cast<double>(tally.not_worth));
    for (std::size_t i = 0; i < truth.size(); ++i)
      std::printf("%s%s %.4f", i == 0 ? "        " : ", ", record.models[i].model.Label().c_str(), truth[i]);
    std::printf("\n");
  }
}

}  // namespace
}  // namespace heed::bench

int main(int count, char** words) {
  CLI::App app("Replays studies of recorded trainings");
  std::vector<std::string> records;
  int64_t studies = 200;
  std::vector<double> shares = {0.25, 1, 4};
  double tolerance = 0.01;
  app.add_option("RECORD", records, "Files of study_record")->required();
  app.add_option("--studies", studies, "How many of each");
  app.add_option("--shares", shares, "Of the recorded budget")->delimiter(',');
  app.add_option("--tolerance", tolerance, "As heed study has it");
  CLI11_PARSE(app, count, words);
  try {
    for (const std::string& record : records) heed::bench::Replay(heed::bench::ReadRecord(record), studies, shares, tolerance);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "study_replay: %s\n", error.what());
    return 1;
  }
}
