#include "lab/runs/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <boost/math/distributions/students_t.hpp>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/runs/spread.h"

namespace heed::lab {
namespace {

constexpr double kRisk = 0.05;  // of any false difference, for each kind of chance
constexpr int64_t kResamples = 4000;
constexpr uint64_t kBootstrapSeed = 141421;  // any fixed number: the same data give the same verdict
constexpr Interval kNone = {NAN, NAN};
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
  std::vector<Row> by_seed, by_block;  // [contenders, seeds], [contenders, blocks]
  Row weights;                         // of the blocks

  std::size_t size() const { return contenders.size(); }
  double pairs() const { return 0.5 * static_cast<double>(size()) * static_cast<double>(size() - 1); }
};

void RequireShape(const std::vector<Row>& losses, std::size_t seeds, std::size_t blocks) {
  const bool whole = losses.size() == seeds && std::ranges::all_of(losses, [&](const Row& row) {
                       return row.size() == blocks && std::ranges::all_of(row, [](double loss) { return std::isfinite(loss); });
                     });
  if (!whole) throw InvalidArgument("scores: expected a finite loss of every contender for every seed and block");
}

LossTable TableOf(const std::vector<Score>& scores, const Row& weights) {
  LossTable table{{}, {}, {}, weights};
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::vector<Row>& losses = scores[i].losses;
    if (losses.empty()) continue;
    RequireShape(losses, table.contenders.empty() ? losses.size() : table.by_seed.front().size(), weights.size());
    table.contenders.push_back(i);
    Row by_seed, by_block(weights.size(), 0.0);
    for (const Row& row : losses) {
      by_seed.push_back(WeightedMean(row, weights));
      for (std::size_t b = 0; b < row.size(); ++b) by_block[b] += row[b] / static_cast<double>(losses.size());
    }
    table.by_seed.push_back(std::move(by_seed));
    table.by_block.push_back(std::move(by_block));
  }
  if (table.contenders.empty() || weights.empty()) throw InvalidArgument("scores: expected at least one loss");
  return table;
}

// The variance of a difference between two contenders' losses with one seed, by all contenders together.
double CommonVariance(const LossTable& table) {
  const std::size_t seeds = table.by_seed.front().size();
  Row of_seed(seeds, 0.0);
  for (const Row& row : table.by_seed) {
    const double mean = MeanOf(row);
    for (std::size_t s = 0; s < seeds; ++s) of_seed[s] += (row[s] - mean) / static_cast<double>(table.size());
  }
  double squares = 0;
  for (const Row& row : table.by_seed) {
    const double mean = MeanOf(row);
    for (std::size_t s = 0; s < seeds; ++s) squares += std::pow(row[s] - mean - of_seed[s], 2);
  }
  return 2 * squares / static_cast<double>((table.size() - 1) * (seeds - 1));
}

// Gaps to one contender under other seeds.
class SeedChance {
 public:
  explicit SeedChance(const LossTable& table) : seeds_(static_cast<double>(table.by_seed.front().size())) {
    if (seeds_ < 2 || table.size() < 2) return;
    const double freedom = static_cast<double>(table.size() - 1) * (seeds_ - 1);
    common_ = CommonVariance(table);
    quantile_ = boost::math::quantile(boost::math::students_t(freedom), 1 - kRisk / (2 * table.pairs()));
  }

  // How far the mean of these differences may be from the true one.
  double Reach(const Row& differences) const {
    if (seeds_ < 2) return kEverywhere;
    const double mean = MeanOf(differences);
    double own = 0;
    for (const double difference : differences) own += std::pow(difference - mean, 2) / (seeds_ - 1);
    return quantile_ * std::sqrt(std::max(own, common_) / seeds_);
  }

 private:
  double seeds_, common_ = 0, quantile_ = 0;
};

// Gaps under other data: of each pair the deviation of the mean over drawn blocks, and the common number of deviations that
// 95 % of the draws keep to in all pairs.
class BlockChance {
 public:
  explicit BlockChance(const LossTable& table) : table_(table), blocks_(table.weights.size()) {
    if (blocks_ < 2 || table.size() < 2) return;
    Draw();
    Row largest(kResamples, 0.0);
    for (std::size_t a = 0; a < table.size(); ++a) {
      for (std::size_t b = a + 1; b < table.size(); ++b) {
        const double center = Gap(a, b), deviation = Deviation(a, b);
        if (deviation == 0) continue;
        for (int64_t r = 0; r < kResamples; ++r) {
          largest[r] = std::max(largest[r], std::abs(means_[b][r] - means_[a][r] - center) / deviation);
        }
      }
    }
    std::ranges::sort(largest);
    quantile_ = largest[static_cast<std::size_t>(std::ceil((1 - kRisk) * kResamples)) - 1];
  }

  double Reach(std::size_t a, std::size_t b) const {
    if (blocks_ < 2) return kEverywhere;
    // The draws spread as if the blocks' own mean were the true one, which makes too little of few blocks.
    const double few = std::sqrt(static_cast<double>(blocks_) / static_cast<double>(blocks_ - 1));
    return few * quantile_ * Deviation(a, b);
  }

 private:
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
  double quantile_ = 0;
};

Standing StandingOf(const Judged& judged, double gain) {
  if (judged.by_both.low <= 0) return Standing::kTied;
  return gain >= judged.by_both.low ? Standing::kUndecided : Standing::kBehind;
}

}  // namespace

std::string ToString(Standing standing) {
  switch (standing) {
    case Standing::kLeads:
      return "leads";
    case Standing::kTied:
      return "tied";
    case Standing::kUndecided:
      return "undecided";
    case Standing::kBehind:
      return "behind";
    case Standing::kDiverged:
      return "diverged";
  }
  return {};
}

std::vector<Judged> Judge(const std::vector<Score>& scores, const std::vector<double>& weights) {
  const LossTable table = TableOf(scores, weights);
  std::vector<std::size_t> order(table.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return MeanOf(table.by_seed[i]); });
  const std::size_t leader = order.front();
  const SeedChance seeds(table);
  const BlockChance blocks(table);
  std::vector<Judged> judged;
  for (const std::size_t i : order) {
    const Row differences = Differences(table.by_seed[leader], table.by_seed[i]);
    Judged one{table.contenders[i], Standing::kLeads, MeanOf(table.by_seed[i]), MeanOf(differences), {}, {}, {}};
    if (i != leader) {
      const double of_seeds = seeds.Reach(differences), of_blocks = blocks.Reach(leader, i);
      one.by_seeds = {one.gap - of_seeds, one.gap + of_seeds};
      one.by_blocks = {one.gap - of_blocks, one.gap + of_blocks};
      one.by_both = {one.gap - std::hypot(of_seeds, of_blocks), one.gap + std::hypot(of_seeds, of_blocks)};
      one.standing = StandingOf(one, scores[one.contender].gain);
    }
    judged.push_back(one);
  }
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i].losses.empty()) judged.push_back({i, Standing::kDiverged, NAN, NAN, kNone, kNone, kNone});
  }
  return judged;
}

nlohmann::ordered_json ToJson(const Interval& interval) {
  const auto end = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  return {{"low", end(interval.low)}, {"high", end(interval.high)}};
}

}  // namespace heed::lab
