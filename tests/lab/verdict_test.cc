#include "lab/runs/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/data/random.h"
#include "lab/runs/measurements.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

// As five models of three texts differ after the default budget of a study, in nats per character, rounded up: a run of another
// seed, one model on one block beside the others, one block beside the others for all models, the seeds' runs on one block.
constexpr double kSeedDeviation = 0.009, kModelBlockDeviation = 0.032, kBlockDeviation = 0.35, kRunBlockDeviation = 0.02;
constexpr int kModels = 5, kSeeds = 3, kBlocks = 20;

// Box and Muller 1958.
double Normal(Random& random) {
  return std::sqrt(-2 * std::log(1 - random.Uniform())) * std::cos(2 * std::numbers::pi * random.Uniform());
}

// Losses around these means; runs of the last one spread so many times as far.
std::vector<Score> Simulated(const std::vector<double>& means, Random& random, int seeds = kSeeds, int blocks = kBlocks,
                             double last_spread = 1) {
  std::vector<double> block(blocks);
  for (double& value : block) value = kBlockDeviation * Normal(random);
  std::vector<Score> scores;
  for (const double mean : means) {
    std::vector<double> own(blocks);
    for (double& value : own) value = kModelBlockDeviation * Normal(random);
    Score score;
    for (int s = 0; s < seeds; ++s) {
      const double spread = scores.size() + 1 == means.size() ? last_spread : 1;
      const double run = mean + spread * kSeedDeviation * Normal(random);
      std::vector<double> losses(blocks);
      for (int b = 0; b < blocks; ++b) losses[b] = run + block[b] + own[b] + kRunBlockDeviation * Normal(random);
      score.losses.push_back(std::move(losses));
    }
    scores.push_back(std::move(score));
  }
  return scores;
}

std::vector<double> Equal(int blocks = kBlocks) { return std::vector<double>(blocks, 1.0); }

std::map<std::size_t, Standing> Standings(const std::vector<Judged>& judged) {
  std::map<std::size_t, Standing> standings;
  for (const Judged& one : judged) standings[one.contender] = one.standing;
  return standings;
}

// How many of so many studies find a difference between equal models.
int FalseVerdicts(int studies, uint64_t seed, double last_spread) {
  Random random(seed);
  int found = 0;
  for (int i = 0; i < studies; ++i) {
    const std::vector<Judged> judged =
        Judge(Simulated(std::vector<double>(kModels, 1.5), random, kSeeds, kBlocks, last_spread), Equal());
    found += std::ranges::count(judged, Standing::kBehind, &Judged::standing) > 0 ? 1 : 0;
  }
  return found;
}

// One in twenty, and two standard errors of as many studies.
TEST(VerdictTest, WithoutADifferenceHardlyAnyIsFound) {
  for (const double spread : {0.0, 1.0, 3.0, 10.0}) EXPECT_LE(FalseVerdicts(200, 1, spread), 16) << spread;
}

TEST(LongVerdictTest, WithoutADifferenceAtMostOneInTwentyIsFound) {
  EXPECT_LE(FalseVerdicts(1000, 1, 1), 50);
  for (const double spread : {0.0, 3.0, 10.0}) EXPECT_LE(FalseVerdicts(1000, 7, spread), 50) << spread;
}

// The leader by these runs is the one that is taken. How much worse than the best it truly is stays within what is told.
TEST(VerdictTest, WhoTakesTheLeaderLosesAtMostWhatIsTold) {
  const std::vector<std::vector<double>> sets = {{1.5, 1.5, 1.5, 1.5, 1.5},
                                                 {1.5, 1.505, 1.505, 1.51, 1.52},
                                                 {1.505, 1.5, 1.505, 1.505, 1.505},
                                                 {1.51, 1.5, 1.7, 1.7, 1.7}};
  for (const std::vector<double>& means : sets) {
    for (const double spread : {1.0, 10.0}) {
      Random random(9);
      int held = 0;
      for (int i = 0; i < 200; ++i) {
        const Judged leader = Judge(Simulated(means, random, kSeeds, kBlocks, spread), Equal()).front();
        held += means[leader.contender] - std::ranges::min(means) <= leader.may_lose ? 1 : 0;
      }
      EXPECT_GE(held, 190) << means[0] << " " << means[1] << " " << spread;
    }
  }
}

TEST(VerdictTest, SeedsMayDifferInNumber) {
  Random random(10);
  std::vector<Score> scores = Simulated({1.5, 1.52, 1.6}, random, 6);
  const double all = Judge(scores, Equal()).front().may_lose;
  scores[2].losses.resize(1);
  const std::vector<Judged> judged = Judge(scores, Equal());
  EXPECT_EQ(judged.back().standing, Standing::kBehind) << "others' variance stands for that of one run";
  scores[0].losses.resize(2), scores[1].losses.resize(2);
  EXPECT_GT(Judge(scores, Equal()).front().may_lose, all);
}

// What is not trained has no seeds: beside it a contender's own chance is all there is.
TEST(VerdictTest, AFixedContenderAddsNoChanceOfSeeds) {
  Random random(11);
  std::vector<Score> scores = Simulated({1.5, 1.5}, random);
  const std::vector<Score> pair = {scores[0], {{std::vector<double>(kBlocks, 3.0)}, /*fixed=*/true}};
  const Judged behind = Judge(pair, Equal()).back();
  EXPECT_EQ(behind.standing, Standing::kBehind);
  EXPECT_EQ(Judge({pair[1]}, Equal()).front().may_lose, 0);
  std::vector<double> runs;
  for (const std::vector<double>& row : scores[0].losses) runs.push_back(MeanOf(row));
  const double mean = MeanOf(runs);
  double squares = 0;
  for (const double run : runs) squares += (run - mean) * (run - mean);
  // Two degrees of freedom, two sides: t(0.975) = 4.302652730.
  EXPECT_NEAR(behind.by_seeds.high - behind.gap, 4.302652730 * std::sqrt(squares / 2 / 3), 1e-8);
}

TEST(VerdictTest, ATenthOfANatIsFoundInNineOfTen) {
  Random random(2);
  int found = 0;
  for (int i = 0; i < 500; ++i) {
    const std::vector<Judged> judged = Judge(Simulated({1.5, 1.6, 1.6, 1.6, 1.6}, random), Equal());
    const bool all = std::ranges::count(judged, Standing::kBehind, &Judged::standing) == kModels - 1;
    found += judged.front().contender == 0 && all ? 1 : 0;
  }
  EXPECT_GE(found, 450);
}

TEST(VerdictTest, DoesNotDependOnTheOrder) {
  Random random(3);
  for (int i = 0; i < 20; ++i) {
    std::vector<Score> scores = Simulated({1.5, 1.52, 1.55, 1.58, 1.7}, random);
    std::vector<Score> turned = scores;
    std::ranges::rotate(turned, turned.begin() + 2);
    const std::map<std::size_t, Standing> before = Standings(Judge(scores, Equal())), after = Standings(Judge(turned, Equal()));
    for (std::size_t c = 0; c < scores.size(); ++c) EXPECT_EQ(before.at((c + 2) % scores.size()), after.at(c));
  }
}

// Three seeds of two contenders on two blocks, the second four times as heavy.
TEST(VerdictTest, TheIntervalBySeedsIsWelchs) {
  const std::vector<Score> scores = {{.losses = {{1, 1}, {1.2, 1.2}, {1.1, 1.1}}}, {.losses = {{2, 2}, {2.5, 2}, {1.9, 2.4}}}};
  const std::vector<Judged> judged = Judge(scores, {1, 4});
  ASSERT_EQ(judged.size(), 2U);
  EXPECT_EQ(judged[0].contender, 0U);
  // Runs 1, 1.2, 1.1 and 2, 2.1, 2.3: means 1.1 and 2.1333, variances 0.01 and 0.07 / 3. Beyond chance these are alike, so each
  // counts as 8 degrees of freedom of exp(mean of log(variance) - digamma(1)), where -digamma(1) is Euler's 0.5772156649.
  const double typical = std::sqrt(0.01 * 0.07 / 3) * std::exp(0.5772156649);
  const double first = (2 * 0.01 + 8 * typical) / 10, second = (2 * 0.07 / 3 + 8 * typical) / 10;
  const double freedom = 10 * std::pow(first + second, 2) / (first * first + second * second);
  EXPECT_GT(freedom, 19);
  // One pair, two sides; t(0.975) is 2.0930 at 19 degrees of freedom and 2.0860 at 20.
  const double reach = judged[1].by_seeds.high - judged[1].gap, deviation = std::sqrt((first + second) / 3);
  EXPECT_NEAR(judged[1].gap, 1 + 1.0 / 30, 1e-12);
  EXPECT_NEAR(judged[1].by_seeds.low, judged[1].gap - reach, 1e-12);
  EXPECT_LT(reach, 2.0930 * deviation);
  EXPECT_GT(reach, 2.0859 * deviation);
}

TEST(VerdictTest, NeedsBothKindsOfChance) {
  Random random(4);
  // All seeds agree, but one block makes the whole difference.
  std::vector<Score> scores(2);
  for (int s = 0; s < kSeeds; ++s) {
    std::vector<double> same(kBlocks, 1.5), other = same;
    other[3] += 4 + 0.001 * s;
    scores[0].losses.push_back(same);
    scores[1].losses.push_back(other);
  }
  std::vector<Judged> judged = Judge(scores, Equal());
  EXPECT_GT(judged[1].by_seeds.low, 0);
  EXPECT_LT(judged[1].by_blocks.low, 0);
  EXPECT_EQ(judged[1].standing, Standing::kTied);
  // All blocks agree, but not the seeds.
  scores[1].losses = {std::vector<double>(kBlocks, 1.4), std::vector<double>(kBlocks, 1.5), std::vector<double>(kBlocks, 2.1)};
  judged = Judge(scores, Equal());
  EXPECT_GT(judged[1].by_blocks.low, 0);
  EXPECT_LT(judged[1].by_seeds.low, 0);
  EXPECT_EQ(judged[1].standing, Standing::kTied);
}

TEST(VerdictTest, OneSeedOrOneBlockTellsNothingApart) {
  Random random(5);
  for (const auto& [seeds, blocks] : {std::pair(1, kBlocks), std::pair(kSeeds, 1), std::pair(1, 1)}) {
    const std::vector<Judged> judged = Judge(Simulated({1.0, 3.0, 9.0}, random, seeds, blocks), Equal(blocks));
    EXPECT_EQ(judged[1].standing, Standing::kTied);
    EXPECT_EQ(judged[2].standing, Standing::kTied);
    EXPECT_FALSE(std::isfinite(seeds == 1 ? judged[2].by_seeds.high : judged[2].by_blocks.high));
  }
}

TEST(VerdictTest, WhatDivergedStandsAtTheEndAndChangesNothing) {
  Random random(7);
  std::vector<Score> scores = Simulated({1.5, 1.6}, random);
  const std::vector<Judged> alone = Judge(scores, Equal());
  scores.insert(scores.begin() + 1, Score{});
  const std::vector<Judged> judged = Judge(scores, Equal());
  ASSERT_EQ(judged.size(), 3U);
  EXPECT_EQ(judged[2].contender, 1U);
  EXPECT_EQ(judged[2].standing, Standing::kDiverged);
  EXPECT_FALSE(std::isfinite(judged[2].loss));
  for (const int i : {0, 1}) {
    EXPECT_EQ(judged[i].standing, alone[i].standing);
    EXPECT_EQ(judged[i].by_blocks.low, alone[i].by_blocks.low);
  }
}

TEST(VerdictTest, EqualLossesAreATie) {
  Random random(8);
  std::vector<Score> scores = Simulated({1.5}, random);
  scores.push_back(scores.front());
  const std::vector<Judged> judged = Judge(scores, Equal());
  EXPECT_EQ(judged[1].gap, 0);
  EXPECT_EQ(judged[1].standing, Standing::kTied);
}

// Losses of models as good as a method without training on a test part of so many sequences, whose losses are as skewed as
// those of a classification and which stand in at most 32 blocks: of how many of so many studies is the best model told apart,
// and called better. Neighbouring sequences have so much of their loss in common.
int FalseWorth(int studies, int models, int sequences, double in_common, uint64_t seed) {
  constexpr int kMostBlocks = 32;
  Random random(seed);
  const int blocks = std::min(sequences, kMostBlocks);
  std::vector<double> weights(blocks, 0.0);
  for (int s = 0; s < sequences; ++s) weights[s * blocks / sequences] += 1;
  // The mean of a block's losses, each the sum of what is its own and what it has of the one before.
  const auto draw = [&] {
    std::vector<double> means(blocks, 0.0);
    double loss = 1;
    for (int s = 0; s < sequences; ++s) {
      loss = in_common * loss - (1 - in_common) * std::log(1 - random.Uniform());
      means[s * blocks / sequences] += loss / weights[s * blocks / sequences];
    }
    return means;
  };
  int found = 0;
  for (int i = 0; i < studies; ++i) {
    std::vector<Score> scores(models);
    for (Score& score : scores) {
      const std::vector<double> own = draw();
      for (int run = 0; run < kSeeds; ++run) {
        const double shift = kSeedDeviation * Normal(random);
        score.losses.push_back(own);
        for (double& loss : score.losses.back()) loss += shift + kRunBlockDeviation * Normal(random);
      }
    }
    scores.push_back({{draw()}, /*fixed=*/true});
    const std::size_t best = Judge({scores.begin(), scores.end() - 1}, weights).front().contender;
    const Compared worth = CompareWith(models, best, scores, weights);
    found += worth.ahead && worth.apart() ? 1 : 0;
  }
  return found;
}

TEST(VerdictTest, TheLuckiestOfManyIsHardlyEverCalledBetterThanAMethodAsGood) {
  // One in twenty, and two standard errors of as many studies.
  for (const int sequences : {2, 20, 200}) EXPECT_LE(FalseWorth(100, 7, sequences, 0, 12), 9) << sequences;
}

TEST(LongVerdictTest, TheLuckiestOfManyIsCalledBetterAtMostOnceInTwenty) {
  for (const int models : {1, 7}) {
    for (const int sequences : {2, 20, 32, 200}) {
      for (const double in_common : {0.0, 0.1, 0.3}) {
        // Two blocks do not show what they have in common; more show some of it.
        if (sequences == 2 && in_common > 0.1) continue;
        const int most = in_common > 0.1 ? 64 : 50;
        EXPECT_LE(FalseWorth(1000, models, sequences, in_common, 12), most) << models << " " << sequences << " " << in_common;
      }
    }
  }
}

TEST(VerdictTest, AModelThatIsATenthOfANatBetterIsFoundInNineOfTen) {
  Random random(13);
  int found = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<Score> scores = Simulated({1.5, 1.6, 1.6, 1.6, 1.6, 1.6}, random);
    scores.back().losses.resize(1), scores.back().fixed = true;
    const Compared worth = CompareWith(5, 0, scores, Equal());
    found += worth.ahead && worth.apart() ? 1 : 0;
  }
  EXPECT_GE(found, 180);
}

TEST(VerdictTest, BesideAYardstickOnlyItsOwnPairsCount) {
  Random random(14);
  const std::vector<Score> scores = Simulated({1.5, 1.52, 1.54, 1.5}, random);
  const auto width = [](const Interval& interval) { return interval.high - interval.low; };
  const std::vector<Judged> all = Judge(scores, Equal());
  const auto of = [&](std::size_t i) { return *std::ranges::find(all, i, &Judged::contender); };
  const std::size_t leader = all.front().contender, other = all.back().contender;
  const Compared with = CompareWith(leader, other, scores, Equal());
  EXPECT_FALSE(with.ahead);
  EXPECT_EQ(with.behind.contender, other);
  EXPECT_EQ(with.loss, of(other).loss);
  EXPECT_EQ(with.behind.gap, of(other).gap);
  EXPECT_LT(width(with.behind.by_seeds), width(of(other).by_seeds)) << "three pairs instead of six";
  EXPECT_LE(width(with.behind.by_blocks), width(of(other).by_blocks));
  const Compared turned = CompareWith(other, leader, scores, Equal());
  EXPECT_TRUE(turned.ahead);
  EXPECT_EQ(turned.behind.contender, other);
  EXPECT_EQ(turned.behind.by_seeds.low, with.behind.by_seeds.low);
  // Of two there is one pair either way.
  const std::vector<Score> two = {scores[0], scores[2]};
  const Judged behind = Judge(two, Equal()).back(), same = CompareWith(0, 1, two, Equal()).behind;
  EXPECT_EQ(same.by_both.low, behind.by_both.low);
  EXPECT_EQ(same.standing, behind.standing);
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] {
                      CompareWith(0, 1, {scores[0], {}}, Equal());
                    }),
                    "scores: expected losses of the two that are compared"));
}

TEST(VerdictTest, RefusesScoresOfOtherShapes) {
  const Score whole = {.losses = {{1, 2}, {1, 2}}}, ragged = {.losses = {{1, 2}, {1}}},
              missing = {.losses = {{1, 2}, {1, NAN}}};
  for (const Score& score : {ragged, missing}) {
    EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Judge({whole, score}, {1, 1}); }), "scores: expected a finite loss"));
  }
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([] { Judge({{}, {}}, {1}); }), "at least one loss"));
}

}  // namespace
}  // namespace heed::lab
