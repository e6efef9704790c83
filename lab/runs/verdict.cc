#include "lab/runs/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/polygamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/runs/measurements.h"

namespace heed::lab {
namespace {

constexpr double kRisk = 0.05;  // of any false difference, for each kind of chance
constexpr int64_t kResamples = 4000;
constexpr uint64_t kBootstrapSeed = 141421;  // any fixed number: the same data give the same verdict
constexpr Interval kNone = {NAN, NAN};
constexpr double kNoisy = 3;  // a variance between seeds so many times the typical one is not of its kind, and stands by itself
constexpr double kEverywhere = std::numeric_limits<double>::infinity();

using Row = std::vector<double>;

double WeightedMean(const Row& values, const Row& weights) {
  return std::inner_product(values.begin(), values.end(), weights.begin(), 0.0) /
         std::accumulate(weights.begin(), weights.end(), 0.0);
}

Row Differences(const Row& a, const Row& b) {
  Row differences(a.size());
  std::ranges::transform(b, a, differences.begin(), std::minus<>());
  return differences;
}

// Those that have losses, once averaged over the blocks and once over the seeds.
struct LossTable {
  std::vector<std::size_t> contenders;
  std::vector<Row> by_seed, by_block;  // of each contender: [seeds], [blocks]
  std::vector<bool> fixed;
  Row weights;  // of the blocks
  // The one whom all others are compared with; none where each is compared with each.
  std::optional<std::size_t> yardstick = {};

  std::size_t size() const { return contenders.size(); }
  double others() const { return static_cast<double>(size()) - 1; }
  double pairs() const { return yardstick ? others() : others() * static_cast<double>(size()) / 2; }
  bool Compares(std::size_t a, std::size_t b) const { return !yardstick || *yardstick == a || *yardstick == b; }
};

void RequireShape(const std::vector<Row>& losses, std::size_t blocks) {
  const bool whole = std::ranges::all_of(losses, [&](const Row& row) {
    return row.size() == blocks && std::ranges::all_of(row, [](double loss) { return std::isfinite(loss); });
  });
  if (!whole) throw InvalidArgument("scores: expected a finite loss of every contender for every block");
}

LossTable TableOf(const std::vector<Score>& scores, const Row& weights) {
  LossTable table{{}, {}, {}, {}, weights, {}};
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::vector<Row>& losses = scores[i].losses;
    if (losses.empty()) continue;
    RequireShape(losses, weights.size());
    table.contenders.push_back(i);
    table.fixed.push_back(scores[i].fixed);
    Row by_seed;
    for (const Row& row : losses) by_seed.push_back(WeightedMean(row, weights));
    table.by_seed.push_back(std::move(by_seed));
    table.by_block.push_back(MeanOf(losses));
  }
  if (table.contenders.empty() || weights.empty()) throw InvalidArgument("scores: expected at least one loss");
  return table;
}

// x where trigamma(x) is `value`, by Newton's method on 1 / trigamma, which is convex (Smyth 2004, appendix).
double InverseTrigamma(double value) {
  constexpr int kSteps = 30;
  double x = 0.5 + 1 / value;
  for (int i = 0; i < kSteps; ++i) {
    const double here = boost::math::trigamma(x);
    x += here * (1 - here / value) / boost::math::polygamma(2, x);
  }
  return x;
}

// What the contenders' variances between seeds have in common: a typical one, worth so many degrees of freedom.
struct CommonVariance {
  double variance = 0, freedom = 0;
};

// The mean logarithm of the variances, and from how far they scatter beyond what so few seeds explain how much it tells of
// each.
CommonVariance CommonOf(const Row& variances, const Row& freedoms) {
  constexpr double kMostFreedom = 8;  // so few contenders cannot show that their variances are all the same
  Row logs;
  double expected = 0;
  for (std::size_t i = 0; i < variances.size(); ++i) {
    if (!(variances[i] > 0)) continue;
    const double half = freedoms[i] / 2;
    logs.push_back(std::log(variances[i]) - boost::math::digamma(half) + std::log(half));
    expected += boost::math::trigamma(half);
  }
  if (logs.empty()) return {};
  const double mean = MeanOf(logs), count = static_cast<double>(logs.size());
  if (logs.size() < 2) return {std::exp(mean), 0};
  double scatter = -expected / count;
  for (const double one : logs) scatter += std::pow(one - mean, 2) / (count - 1);
  const double freedom = scatter > 0 ? 2 * InverseTrigamma(scatter) : kMostFreedom;
  return {std::exp(mean), std::min(freedom, kMostFreedom)};
}

// Gaps between two contenders under other seeds.
class SeedChance {
 public:
  explicit SeedChance(const LossTable& table) {
    Row variances, freedoms;
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Row& losses = table.by_seed[i];
      if (table.fixed[i] || losses.size() < 2) continue;
      variances.push_back(VarianceOf(losses));
      freedoms.push_back(static_cast<double>(losses.size()) - 1);
    }
    known_ = !variances.empty();
    const CommonVariance common = CommonOf(variances, freedoms);
    for (std::size_t i = 0; i < table.size(); ++i) {
      const Row& losses = table.by_seed[i];
      const double count = static_cast<double>(losses.size()), own = count - 1;
      if (table.fixed[i]) {
        of_means_.push_back({});
      } else if (const double variance = own > 0 ? VarianceOf(losses) : 0; variance > kNoisy * common.variance) {
        of_means_.push_back({variance / count, own});
      } else if (own + common.freedom >= 1) {
        const double sum = common.freedom * common.variance + own * variance;
        of_means_.push_back({sum / (own + common.freedom) / count, own + common.freedom});
      } else {
        of_means_.push_back({kEverywhere, 1});
      }
    }
  }

  // How far the difference of two means may be from the true one, at this level to one side.
  double Reach(std::size_t a, std::size_t b, double level) const {
    const auto [first, first_freedom] = of_means_[a];
    const auto [second, second_freedom] = of_means_[b];
    const double variance = first + second;
    if (!known_ || !std::isfinite(variance)) return kEverywhere;
    if (variance == 0) return 0;
    const auto part = [](double of, double freedom) { return of == 0 ? 0 : of * of / freedom; };
    const double freedom = variance * variance / (part(first, first_freedom) + part(second, second_freedom));
    return boost::math::quantile(boost::math::complement(boost::math::students_t(freedom), level)) * std::sqrt(variance);
  }

 private:
  static double VarianceOf(const Row& losses) {
    const double mean = MeanOf(losses);
    double squares = 0;
    for (const double loss : losses) squares += std::pow(loss - mean, 2);
    return squares / (static_cast<double>(losses.size()) - 1);
  }

  bool known_ = false;                    // whether any contender has two seeds
  std::vector<CommonVariance> of_means_;  // of each contender's mean over its seeds
};

// Gaps under other data: of each pair the deviation of the mean over drawn blocks, and how many deviations 95 % of the draws
// keep to, to either side in all pairs that are compared or above one contender's gap to each other one.
class BlockChance {
 public:
  explicit BlockChance(const LossTable& table) : table_(table), blocks_(table.weights.size()) {
    of_one_.assign(table.size(), 0.0);
    if (blocks_ < 2 || table.size() < 2) return;
    Draw();
    Row largest(kResamples, 0.0);
    std::vector<Row> above(table.size(), Row(kResamples, 0.0));
    for (std::size_t a = 0; a < table.size(); ++a) {
      for (std::size_t b = a + 1; b < table.size(); ++b) {
        if (!table.Compares(a, b)) continue;
        const double center = Gap(a, b), deviation = Deviation(a, b);
        if (deviation == 0) continue;
        for (int64_t r = 0; r < kResamples; ++r) {
          const double off = (means_[b][r] - means_[a][r] - center) / deviation;
          largest[r] = std::max(largest[r], std::abs(off));
          above[a][r] = std::max(above[a][r], off), above[b][r] = std::max(above[b][r], -off);
        }
      }
    }
    of_pairs_ = Quantile(std::move(largest), kRisk / 2);
    for (std::size_t a = 0; a < table.size(); ++a) of_one_[a] = Quantile(std::move(above[a]), kRisk);
  }

  // Of a pair among all that are compared, to either side.
  double Reach(std::size_t a, std::size_t b) const { return Reach(a, b, of_pairs_); }
  // How much less than it seems the contender may be ahead of `other`, among its gaps to all others.
  double ReachOf(std::size_t contender, std::size_t other) const { return Reach(contender, other, of_one_[contender]); }

 private:
  // How many deviations 95 % of the draws keep to, which are at least those of a single normal number at this level to one
  // side; then of Student's t, since the deviations are known by these blocks alone.
  double Quantile(Row values, double level) const {
    std::ranges::sort(values);
    const double drawn = values[static_cast<std::size_t>(std::ceil((1 - kRisk) * kResamples)) - 1];
    const boost::math::normal normal;
    const double least = boost::math::quantile(boost::math::complement(normal, level));
    const boost::math::students_t few(static_cast<double>(blocks_ - 1));
    const double beyond = boost::math::cdf(boost::math::complement(normal, std::max(drawn, least)));
    return boost::math::quantile(boost::math::complement(few, beyond));
  }

  double Reach(std::size_t a, std::size_t b, double quantile) const {
    if (blocks_ < 2) return kEverywhere;
    // The draws spread as if the blocks' own mean were the true one, which makes too little of few blocks.
    const double few = std::sqrt(static_cast<double>(blocks_) / static_cast<double>(blocks_ - 1));
    return few * quantile * Deviation(a, b) * std::sqrt(InCommon(a, b));
  }

  // How much more the mean over blocks varies than that over blocks without anything in common: as for numbers each of which
  // keeps a share of the one before, as large as that of these neighbours' differences (Wilks 2011, "Statistical methods in the
  // atmospheric sciences", section 5.2.4).
  double InCommon(std::size_t a, std::size_t b) const {
    constexpr double kMost = 0.5;  // so few blocks often seem to have more in common than they have
    const Row gaps = Differences(table_.by_block[a], table_.by_block[b]);
    const double mean = MeanOf(gaps);
    double squares = 0, products = 0;
    for (std::size_t i = 0; i < gaps.size(); ++i) {
      squares += std::pow(gaps[i] - mean, 2);
      if (i > 0) products += (gaps[i] - mean) * (gaps[i - 1] - mean);
    }
    const double seen = squares > 0 ? products / squares : 0;
    // Around the blocks' own mean a share seems smaller than it is (Kendall 1954, "Note on bias in the estimation of
    // autocorrelation").
    const double share = std::clamp(seen + (1 + 3 * seen) / static_cast<double>(blocks_), 0.0, kMost);
    return (1 + share) / (1 - share);
  }

  double Gap(std::size_t a, std::size_t b) const {
    return WeightedMean(Differences(table_.by_block[a], table_.by_block[b]), table_.weights);
  }

  // Every contender's mean over the same drawn blocks, draw by draw.
  void Draw() {
    means_.assign(table_.size(), Row(kResamples, 0.0));
    Random random(kBootstrapSeed);
    for (int64_t r = 0; r < kResamples; ++r) {
      double weight = 0;
      for (std::size_t i = 0; i < blocks_; ++i) {
        const uint64_t block = random.Below(blocks_);
        weight += table_.weights[block];
        for (std::size_t c = 0; c < table_.size(); ++c) means_[c][r] += table_.weights[block] * table_.by_block[c][block];
      }
      for (Row& means : means_) means[r] /= weight;
    }
  }

  double Deviation(std::size_t a, std::size_t b) const {
    const double center = Gap(a, b);
    double squares = 0;
    for (int64_t r = 0; r < kResamples; ++r) squares += std::pow(means_[b][r] - means_[a][r] - center, 2);
    return std::sqrt(squares / static_cast<double>(kResamples));
  }

  const LossTable& table_;
  std::size_t blocks_;
  std::vector<Row> means_;  // [contenders, draws]
  double of_pairs_ = 0;
  Row of_one_;
};

Row MeansOf(const LossTable& table) {
  Row means;
  means.reserve(table.size());
  for (const Row& losses : table.by_seed) means.push_back(MeanOf(losses));
  return means;
}

// `one`, which is not the leader, beside it.
void SetBeside(std::size_t leader, std::size_t i, const LossTable& table, const SeedChance& seeds, const BlockChance& blocks,
               Judged& one) {
  const double of_seeds = seeds.Reach(leader, i, kRisk / (2 * table.pairs())), of_blocks = blocks.Reach(leader, i);
  const auto around = [&](double reach) { return Interval{one.gap - reach, one.gap + reach}; };
  one.by_seeds = around(of_seeds), one.by_blocks = around(of_blocks), one.by_both = around(std::hypot(of_seeds, of_blocks));
  one.standing = one.by_both.low > 0 ? Standing::kBehind : Standing::kTied;
}

double MayLose(const LossTable& table, const Row& means, std::size_t i, const SeedChance& seeds, const BlockChance& blocks) {
  double most = 0;
  for (std::size_t j = 0; j < table.size(); ++j) {
    if (j == i) continue;
    const double reach = std::hypot(seeds.Reach(i, j, kRisk / table.others()), blocks.ReachOf(i, j));
    most = std::max(most, means[i] - means[j] + reach);
  }
  return most;
}

}  // namespace

std::string ToString(Standing standing) {
  constexpr const char* kNames[] = {"leads", "tied", "behind", "stopped", "diverged"};
  return kNames[static_cast<std::size_t>(standing)];
}

std::vector<Judged> Judge(const std::vector<Score>& scores, const std::vector<double>& weights) {
  const LossTable table = TableOf(scores, weights);
  const Row means = MeansOf(table);
  std::vector<std::size_t> order(table.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return means[i]; });
  const std::size_t leader = order.front();
  const SeedChance seeds(table);
  const BlockChance blocks(table);
  std::vector<Judged> judged;
  for (const std::size_t i : order) {
    const double gap = means[i] - means[leader], may_lose = MayLose(table, means, i, seeds, blocks);
    Judged one{table.contenders[i], Standing::kLeads, means[i], gap, {}, {}, {}, may_lose};
    if (i != leader) SetBeside(leader, i, table, seeds, blocks, one);
    judged.push_back(one);
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i].losses.empty()) judged.push_back({i, Standing::kDiverged, NAN, NAN, kNone, kNone, kNone, NAN});
  }
  return judged;
}

Compared CompareWith(std::size_t yardstick, std::size_t taken, const std::vector<Score>& scores,
                     const std::vector<double>& weights) {
  LossTable table = TableOf(scores, weights);
  const auto row = [&](std::size_t contender) {
    const auto at = std::ranges::find(table.contenders, contender);
    if (at == table.contenders.end()) throw InvalidArgument("scores: expected losses of the two that are compared");
    return static_cast<std::size_t>(at - table.contenders.begin());
  };
  const std::size_t model = row(taken), other = row(yardstick);
  table.yardstick = other;
  const Row means = MeansOf(table);
  const bool ahead = means[model] <= means[other];
  const std::size_t leader = ahead ? model : other, behind = ahead ? other : model;
  const SeedChance seeds(table);
  const BlockChance blocks(table);
  Judged one{table.contenders[behind], Standing::kTied, means[behind], means[behind] - means[leader], {}, {}, {}, NAN};
  SetBeside(leader, behind, table, seeds, blocks, one);
  return {ahead, one, means[model]};
}

nlohmann::ordered_json ToJson(const Interval& interval) { return {{"low", interval.low}, {"high", interval.high}}; }

}  // namespace heed::lab
