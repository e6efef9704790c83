// One program of the result of another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/error.h"
#include "heed/score_program.h"
#include "position/pair_program/reference.h"
#include "problem.h"
#include "reference/cases.h"
#include "reference/reference.h"
#include "reference/trial_setup.h"

namespace heed {
namespace {

using namespace program;

constexpr Shape kShape{2, 2, 1, 7, 9, 8, 8};

reference::Case RandomProgramCase(int number, uint64_t seed) {
  reference::Case c;
  c.shape = kShape;
  c.score_program = number;
  c.program_seed = seed;
  return c;
}

Attention With(const ProgramScore& score) {
  Attention attention;
  attention.score = score;
  return attention;
}

ProgramScore Chain(const ProgramScore& first, const ProgramScore& second) {
  ProgramScore both{first.program.Then(second.program), first.tables};
  both.tables.resize(static_cast<std::size_t>(first.program.tables()));  // a call may bring more than are read
  both.tables.insert(both.tables.end(), second.tables.begin(), second.tables.end());
  return both;
}

// The score that the reference makes of `score`.
double ScoreOf(const Attention& attention, const reference::Pair& pair, double score) {
  const reference::Formulas formulas(attention, {}, {}, {});
  reference::Number number(score);
  reference::PairProgramReference::MakeScore(formulas, pair, number);
  return number.value;
}

TEST(ScorePrograms, FollowEachOther) {
  std::mt19937_64 random(5);
  const int kinds = reference::ScorePrograms() + 1;  // the last is random
  for (int trial = 0; trial < 200; ++trial) {
    reference::Case one = RandomProgramCase(static_cast<int>(random() % kinds), random());
    reference::Case other = RandomProgramCase(static_cast<int>(random() % kinds), random());
    const reference::Setup<double> setup(one, 1, random), further(other, 2, random);
    const ProgramScore &first = *setup.attention.score, &second = *further.attention.score;
    const ProgramScore both = Chain(first, second);
    EXPECT_EQ(both.program.tables(), first.program.tables() + second.program.tables());
    const Attention chained = With(both), before = With(first), after = With(second);
    for (int pair = 0; pair < 5; ++pair) {
      const auto below = [&](int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); };
      const reference::Pair at{below(kShape.batch), below(kShape.q_heads), below(kShape.q_len), below(kShape.kv_len)};
      const double score = std::normal_distribution<double>()(random);
      const double expected = ScoreOf(after, at, ScoreOf(before, at, score)), got = ScoreOf(chained, at, score);
      const bool same = got == expected || (std::isnan(got) && std::isnan(expected));
      EXPECT_TRUE(same || std::abs(got - expected) <= 1e-12 * std::max(1.0, std::abs(expected)))
          << got << " and not " << expected << " of " << both.program.Text();
    }
  }
}

TEST(ScorePrograms, RunInTheKernelsAsTheyFollow) {
  std::mt19937_64 random(6);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const int last = reference::ScorePrograms();
    reference::Case one = RandomProgramCase(seed % 2 == 0 ? last : 0, seed), other = RandomProgramCase(13, 100 + seed);
    const reference::Setup<double> setup(one, 1, random), further(other, 2, random);
    const Attention attention = With(Chain(*setup.attention.score, *further.attention.score));
    Problem<double> problem(kShape);
    SerialExecutor serial;
    problem.Run(attention, serial);
    const reference::Result expected =
        reference::Compute(attention, problem.Queries(problem.q), problem.Keys(problem.k), problem.Values(problem.v));
    for (std::size_t x = 0; x < problem.out.size(); ++x) EXPECT_NEAR(problem.out[x], expected.out[x], 1e-11);
  }
}

// A score is real, whatever kind of number the result before it is.
TEST(ScorePrograms, TakeWholeNumbersForRealOnes) {
  const ScoreProgram whole(Query() - Key()), next(Score() + 1), same(Score());
  EXPECT_EQ(whole.Then(next).Text(), "query;key;subtract 0 1;constant real 1;multiply 2 3;constant whole 1;add 4 5");
  EXPECT_EQ(whole.Then(same).Text(), "query;key;subtract 0 1;constant real 1;multiply 2 3");
  EXPECT_EQ(same.Then(next).Text(), next.Text());
  EXPECT_EQ(next.Then(same).Text(), next.Text());
  EXPECT_EQ(ScoreProgram(Expression(2)).Then(ScoreProgram(Score() * 0.5)).Text(), "constant real 1");
}

TEST(ScorePrograms, FollowUpToTheSizeOfOne) {
  const auto words = [](const ScoreProgram& first, const ScoreProgram& second) -> std::string {
    try {
      first.Then(second);
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "nothing is wrong";
  };
  const ScoreProgram eight(Score() + Captured(7)(Head())), nine(Score() + Captured(8)(Head()));
  EXPECT_EQ(words(eight, eight), "nothing is wrong");
  EXPECT_EQ(words(eight, nine), "program: expected a table's place in 0..15, got 16");
  EXPECT_EQ(words(nine, eight), "program: expected a table's place in 0..15, got 16");
  Expression deep = Score();
  for (int x = 0; x < 3000; ++x) deep = Tanh(deep);
  EXPECT_EQ(words(ScoreProgram(deep), ScoreProgram(deep)), "program: expected at most 4096 operations");
}

}  // namespace
}  // namespace heed
