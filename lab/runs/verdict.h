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
  // [seeds, blocks]: the mean over a block of the data, of the runs of each seed; the same blocks for all contenders, which may
  // have different numbers of seeds. Empty: it diverged.
  std::vector<std::vector<double>> losses;
  // It has no seeds: other runs would lose the same. Of a method that is not trained; `losses` is then one row.
  bool fixed = false;
};

enum class Standing {
  kLeads,   // the least loss of all
  kTied,    // not told apart from the leader
  kBehind,  // behind the leader
  // It could not win any more, and has no further runs. Judge gives it to none; its loss is one on the validation part.
  kStopped,
  kDiverged,
};
std::string ToString(Standing standing);  // "leads", "tied", "behind", "stopped", "diverged"

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
  // Who takes this contender loses at most so much to any other, with 95 % for all contenders together: the upper ends of Hsu's
  // intervals (Hsu 1984, "Constrained simultaneous confidence intervals for multiple comparisons with the best"). 0 where there
  // is no other, infinite where chance is not known.
  double may_lose;
};

// The contenders, the least loss first, those that diverged at the end. A contender is behind the leader only where two kinds
// of chance together leave the leader ahead, with 95 % for all pairs of contenders, so that the best of many is not called the
// winner for having been the luckiest of them:
// - other seeds: Welch's t (Welch 1947) at Bonferroni's level for the number of pairs. Few seeds tell little of a contender's
//   own variance, so it is moderated by that of all contenders, as far as these are alike (Smyth 2004, "Linear models and
//   empirical Bayes methods for assessing differential expression", section 6);
// - other data: the bootstrap of the differences block by block (Efron and Tibshirani 1993, "An introduction to the
//   bootstrap"), each drawn block being the same for all contenders, with the largest standardised difference over all pairs
//   (Romano and Wolf 2005, "Exact and approximate stepdown methods for multiple hypothesis testing"). Few blocks tell little of
//   how far blocks spread, for which Student's t allows; neighbours that differ alike count as fewer blocks.
// Where no contender has two seeds, or there is one block, nothing is told apart. `weights`: how many predictions each block
// holds. The result depends neither on the contenders' order nor on time or machine. Throws InvalidArgument where the scores
// differ in blocks or none has a loss.
std::vector<Judged> Judge(const std::vector<Score>& scores, const std::vector<double>& weights);

// Two contenders that were to be compared, one of whom was known before the losses were: a method without training, say.
struct Compared {
  bool ahead;     // whether the one that was taken loses no more than the yardstick
  Judged behind;  // the one of the two that loses more, beside the other; without may_lose
  double loss;    // of the one that was taken

  bool apart() const { return behind.standing == Standing::kBehind; }
};

// The contender `taken`, which may be the best of `scores` by these very losses, beside `yardstick`: as Judge does, but with 95
// % for all pairs of the yardstick and another (Dunnett 1955, "A multiple comparison procedure for comparing several treatments
// with a control"). Of many that are as good as the yardstick the luckiest is so not called better. Throws as Judge, and where
// one of the two has no losses.
Compared CompareWith(std::size_t yardstick, std::size_t taken, const std::vector<Score>& scores,
                     const std::vector<double>& weights);

nlohmann::ordered_json ToJson(const Interval& interval);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_VERDICT_H_
