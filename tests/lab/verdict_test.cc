#include "lab/runs/verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "lab/data/random.h"
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
    Score score{{}, NAN};
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

TEST(VerdictTest, WithoutADifferenceAtMostOneInTwentyIsFound) {
  Random random(1);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<Judged> judged = Judge(Simulated(std::vector<double>(kModels, 1.5), random), Equal());
    found += std::ranges::count(judged, Standing::kBehind, &Judged::standing) > 0 ? 1 : 0;
  }
  RecordProperty("false_verdicts_of_1000", found);
  EXPECT_LE(found, 50);
}

// One noisy model among calm ones: its pairs have fewer degrees of freedom than all together, so that more than one in twenty
// may be found, and no more than one in ten.
TEST(VerdictTest, UnequalSpreadsAreRarelyTakenForADifference) {
  for (const double spread : {0.0, 3.0, 10.0}) {
    Random random(7);
    int found = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::vector<Judged> judged =
          Judge(Simulated(std::vector<double>(kModels, 1.5), random, kSeeds, kBlocks, spread), Equal());
      found += std::ranges::count(judged, Standing::kBehind, &Judged::standing) > 0 ? 1 : 0;
    }
    EXPECT_LE(found, 100) << spread;
  }
}

TEST(VerdictTest, ATenthOfANatIsFoundInNineOfTen) {
  Random random(2);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::vector<Judged> judged = Judge(Simulated({1.5, 1.6, 1.6, 1.6, 1.6}, random), Equal());
    const bool all = std::ranges::count(judged, Standing::kBehind, &Judged::standing) == kModels - 1;
    found += judged.front().contender == 0 && all ? 1 : 0;
  }
  RecordProperty("found_of_1000", found);
  EXPECT_GE(found, 900);
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
TEST(VerdictTest, TheIntervalBySeedsIsStudents) {
  const std::vector<Score> scores = {{{{1, 1}, {1, 1}, {1, 1}}, NAN}, {{{1.2, 1.2}, {1.3, 1.3}, {1.7, 1.2}}, NAN}};
  const std::vector<Judged> judged = Judge(scores, {1, 4});
  ASSERT_EQ(judged.size(), 2U);
  EXPECT_EQ(judged[0].contender, 0U);
  EXPECT_NEAR(judged[1].loss, 1 + (0.2 + 0.3 + (0.7 + 4 * 0.2) / 5) / 3, 1e-12);
  // Differences 0.2, 0.3, 0.3: mean 4/15, deviation sqrt(1/300); two contenders have the same deviation in common. Two degrees
  // of freedom, one pair: t(0.975) = 4.302652730.
  const double reach = 4.302652730 * std::sqrt(1.0 / 300 / 3);
  EXPECT_NEAR(judged[1].gap, 4.0 / 15, 1e-12);
  EXPECT_NEAR(judged[1].by_seeds.low, 4.0 / 15 - reach, 1e-8);
  EXPECT_NEAR(judged[1].by_seeds.high, 4.0 / 15 + reach, 1e-8);
}

TEST(VerdictTest, NeedsBothKindsOfChance) {
  Random random(4);
  // All seeds agree, but one block makes the whole difference.
  std::vector<Score> scores = {{{}, NAN}, {{}, NAN}};
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

TEST(VerdictTest, AGainBeyondTheGapLeavesItUndecided) {
  Random random(6);
  std::vector<Score> scores = Simulated({1.5, 1.8, 1.8}, random);
  scores[1].gain = 0.5, scores[2].gain = 0.1;
  const std::vector<Judged> judged = Judge(scores, Equal());
  const std::map<std::size_t, Standing> standings = Standings(judged);
  EXPECT_EQ(standings.at(0), Standing::kLeads);
  EXPECT_EQ(standings.at(1), Standing::kUndecided);
  EXPECT_EQ(standings.at(2), Standing::kBehind);
  // By chance it may be less behind than it seems, and a gain that makes up for the least of that leaves it open.
  const Judged& behind = *std::ranges::find(judged, 2U, &Judged::contender);
  ASSERT_LT(behind.by_both.low, behind.gap);
  scores[2].gain = (behind.by_both.low + behind.gap) / 2;
  EXPECT_EQ(Standings(Judge(scores, Equal())).at(2), Standing::kUndecided);
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

TEST(VerdictTest, RefusesScoresOfOtherShapes) {
  const Score whole = {{{1, 2}, {1, 2}}, 0}, fewer = {{{1, 2}}, 0}, ragged = {{{1, 2}, {1}}, 0},
              missing = {{{1, 2}, {1, NAN}}, 0};
  for (const Score& score : {fewer, ragged, missing}) {
    EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([&] { Judge({whole, score}, {1, 1}); }), "scores: expected a finite loss"));
  }
  EXPECT_TRUE(Holds(WhatOf<InvalidArgument>([] { Judge({{}, {}}, {1}); }), "at least one loss"));
}

}  // namespace
}  // namespace heed::lab
