// Who is best, as far as seeds and data can tell.
#ifndef HEED_LAB_RUNS_VERDICT_H_
#define HEED_LAB_RUNS_VERDICT_H_

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace heed::lab {

// What a contender lost on the part that is reported on.
struct Score {
  // [seeds, blocks]: the mean over a block of the data, of the runs of each seed; the same seeds and blocks for all contenders.
  // Empty: it diverged.
  std::vector<std::vector<double>> losses;
  // By how much its loss is expected to fall if the training is doubled; NaN where that is not known.
  double gain = 0;
};

enum class Standing {
  kLeads,      // the least loss of all
  kTied,       // not told apart from the leader
  kUndecided,  // behind the leader, but a doubled training may bring it as far: its gain reaches the least of by_both
  kBehind,     // behind the leader
  kDiverged,
};
std::string ToString(Standing standing);  // "leads", "tied", "undecided", "behind", "diverged"

struct Interval {
  double low = 0, high = 0;
};

struct Judged {
  std::size_t contender;  // its index among those judged
  Standing standing;
  double loss, gap;  // mean over seeds and blocks, and how far that is behind the leader's; NaN where it diverged
  // Of the gap: by other seeds alone, by other data alone, by both. The reaches of the first two to either side add up as
  // deviations of independent numbers do.
  Interval by_seeds, by_blocks, by_both;
};

// The contenders, the least loss first, those that diverged at the end. A contender is behind the leader only where two kinds
// of chance together leave the leader ahead, with 95 % for all pairs of contenders, so that the best of many is not called the
// winner for having been the luckiest of them:
// - other seeds: Student's t of the differences seed by seed, at Bonferroni's level for the number of pairs. Their deviation is
//   the larger of the pair's own and that of all contenders together, from what is left of the losses once the means of
//   contenders and of seeds are taken off (a two-way layout, whose degrees of freedom make few seeds go further);
// - other data: the bootstrap of the differences block by block (Efron and Tibshirani 1993, "An introduction to the
//   bootstrap"), each drawn block being the same for all contenders, with the largest standardised difference over all pairs
//   (Romano and Wolf 2005, "Exact and approximate stepdown methods for multiple hypothesis testing").
// With one seed, or one block, nothing is told apart. `weights`: how many predictions each block holds. The result depends
// neither on the contenders' order nor on time or machine. Throws InvalidArgument where the scores differ in shape or none has
// a loss.
std::vector<Judged> Judge(const std::vector<Score>& scores, const std::vector<double>& weights);

nlohmann::ordered_json ToJson(const Interval& interval);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_VERDICT_H_
