#include "book/tasks/task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "heed/error.h"

namespace heed::lab {
namespace {

TaskBatch Batch(const std::string& name, int64_t rows, int64_t steps, uint64_t seed = 1) {
  Random random(seed);
  return TaskNamed(name).Make(rows, steps, random);
}

class EveryTask : public testing::TestWithParam<std::string> {};

TEST_P(EveryTask, IsTheSameForTheSameSeedAndAnotherForAnother) {
  const TaskBatch a = Batch(GetParam(), 3, 56, 5), b = Batch(GetParam(), 3, 56, 5), c = Batch(GetParam(), 3, 56, 6);
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.numbers, b.numbers);
  EXPECT_EQ(a.classes, b.classes);
  EXPECT_EQ(a.values, b.values);
  EXPECT_TRUE(a.tokens != c.tokens || a.numbers != c.numbers);
}

TEST_P(EveryTask, FillsItsShapesAndScoresPlacesInOrder) {
  const TaskFacts& facts = TaskNamed(GetParam()).facts();
  for (const int64_t steps : {facts.shortest, facts.shortest + 1, facts.shortest + 24}) {
    const TaskBatch batch = Batch(GetParam(), 2, steps);
    EXPECT_EQ(std::ssize(batch.tokens), facts.symbols > 0 ? 2 * steps : 0);
    EXPECT_EQ(std::ssize(batch.numbers), 2 * steps * facts.features);
    EXPECT_EQ(batch.scored.size(), batch.classes.size() + batch.values.size());
    EXPECT_FALSE(batch.scored.empty());
    EXPECT_TRUE(std::is_sorted(batch.scored.begin(), batch.scored.end()));
    EXPECT_EQ(std::set<int64_t>(batch.scored.begin(), batch.scored.end()).size(), batch.scored.size());
    EXPECT_GE(batch.scored.front(), 0);
    EXPECT_LT(batch.scored.back(), 2 * steps);
    for (const int64_t token : batch.tokens) EXPECT_TRUE(token >= 0 && token < facts.symbols) << token;
    for (const int64_t answer : batch.classes) EXPECT_TRUE(answer >= 0 && answer < facts.outputs) << answer;
  }
}

TEST_P(EveryTask, RefusesFewerStepsThanItNeeds) {
  const int64_t shortest = TaskNamed(GetParam()).facts().shortest;
  try {
    Batch(GetParam(), 1, shortest - 1);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam()), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(std::to_string(shortest)), std::string::npos) << error.what();
  }
}

// What looks at nothing: the mean answer, or the commonest class.
TEST_P(EveryTask, ChanceIsWhatNoLookingGives) {
  const TaskFacts& facts = TaskNamed(GetParam()).facts();
  const TaskBatch batch = Batch(GetParam(), 4000, std::max<int64_t>(32, facts.shortest));
  if (!facts.Classifies()) {
    double sum = 0;
    for (const float value : batch.values) sum += (value - 1.0) * (value - 1.0);
    EXPECT_NEAR(sum / 4000, facts.chance, 0.01);
    return;
  }
  EXPECT_DOUBLE_EQ(facts.chance, 1.0 / static_cast<double>(facts.outputs));
  for (int64_t c = 0; c < facts.outputs; ++c) {
    const double share = static_cast<double>(std::count(batch.classes.begin(), batch.classes.end(), c)) /
                         static_cast<double>(batch.classes.size());
    EXPECT_NEAR(share, facts.chance, 0.01) << c;
  }
}

INSTANTIATE_TEST_SUITE_P(TaskTest, EveryTask, testing::ValuesIn(TaskNames()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(TaskTest, AnUnknownNameIsAnsweredWithThoseKnown) {
  try {
    TaskNamed("listops");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("'listops'"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("selective-copy"), std::string::npos) << error.what();
  }
}

TEST(AddingTaskTest, AsksForTheSumOfOneMarkedValueInEachHalf) {
  const int64_t steps = 11;
  const TaskBatch batch = Batch("adding", 50, steps);
  for (int64_t row = 0; row < 50; ++row) {
    double sum = 0;
    std::vector<int64_t> marked;
    for (int64_t i = 0; i < steps; ++i) {
      const float value = batch.numbers[2 * (row * steps + i)], mark = batch.numbers[2 * (row * steps + i) + 1];
      EXPECT_TRUE(value >= 0 && value < 1 && (mark == 0 || mark == 1));
      if (mark == 1) marked.push_back(i), sum += value;
    }
    ASSERT_EQ(marked.size(), 2u);
    EXPECT_TRUE(marked[0] < steps / 2 && marked[1] >= steps / 2);
    EXPECT_EQ(batch.scored[row], row * steps + steps - 1);
    EXPECT_NEAR(batch.values[row], sum, 1e-6);
  }
}

TEST(CopyTaskTest, AsksForTheSymbolsAtTheEndInTheirOrder) {
  const int64_t steps = 20;
  const TaskBatch batch = Batch("copy", 4, steps);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t token = batch.tokens[row * steps + i];
      const bool expected = i < 8 ? token >= 1 && token <= 8 : i < 12 ? token == 0 : token == 9;
      EXPECT_TRUE(expected) << i << " " << token;
    }
    for (int64_t i = 0; i < 8; ++i) {
      EXPECT_EQ(batch.scored[8 * row + i], row * steps + 12 + i);
      EXPECT_EQ(batch.classes[8 * row + i], batch.tokens[row * steps + i] - 1);
    }
  }
}

TEST(SelectiveCopyTaskTest, AsksForWhatIsNoBlankInItsOrder) {
  const int64_t steps = 17;
  const TaskBatch batch = Batch("selective-copy", 30, steps);
  std::set<int64_t> places;
  for (int64_t row = 0; row < 30; ++row) {
    std::vector<int64_t> symbols;
    for (int64_t i = 0; i < steps - 4; ++i) {
      const int64_t token = batch.tokens[row * steps + i];
      if (token != 0) symbols.push_back(token - 1), places.insert(i);
    }
    EXPECT_EQ(symbols, std::vector<int64_t>(batch.classes.begin() + 4 * row, batch.classes.begin() + 4 * row + 4));
  }
  EXPECT_EQ(places.size(), 13u) << "symbols stand everywhere before the answers";
}

TEST(RecallTaskTest, EachQueryIsAKeyAndAsksForItsValue) {
  for (const auto& [name, pairs] : std::map<std::string, int64_t>{{"recall", 4}, {"recall-8", 8}, {"recall-16", 16}}) {
    const int64_t steps = 4 * pairs, keys = 4 * pairs;
    const TaskBatch batch = Batch(name, 40, steps);
    ASSERT_EQ(std::ssize(batch.scored), 40 * pairs) << name;
    std::set<int64_t> asked;
    for (std::size_t i = 0; i < batch.scored.size(); ++i) {
      const int64_t row = batch.scored[i] / steps, query = batch.tokens[batch.scored[i]];
      ASSERT_EQ(row, static_cast<int64_t>(i) / pairs);
      EXPECT_GE(batch.scored[i] % steps, 2 * pairs) << "queries come behind the pairs";
      asked.insert(row * steps + query);
      int64_t found = 0;
      for (int64_t pair = 0; pair < pairs; ++pair) {
        if (batch.tokens[row * steps + 2 * pair] != query) continue;
        ++found;
        EXPECT_EQ(batch.classes[i], batch.tokens[row * steps + 2 * pair + 1] - 1 - keys);
      }
      EXPECT_EQ(found, 1) << "keys are different";
    }
    EXPECT_EQ(asked.size(), batch.scored.size()) << "each key is asked for once";
  }
}

// What knows the values of a sequence and not their keys answers with the commonest; docs/tasks.md has these numbers.
TEST(RecallTaskTest, TheCommonestValueIsTheAnswerThisOften) {
  for (const auto& [name, expected] :
       std::map<std::string, double>{{"recall", 0.34}, {"recall-8", 0.26}, {"recall-16", 0.19}}) {
    const int64_t rows = 4000;
    const TaskBatch batch = Batch(name, rows, TaskNamed(name).facts().shortest);
    const int64_t pairs = std::ssize(batch.classes) / rows;
    int64_t right = 0;
    for (int64_t row = 0; row < rows; ++row) {
      std::map<int64_t, int64_t> counts;
      int64_t most = 0;
      for (int64_t i = 0; i < pairs; ++i) most = std::max(most, ++counts[batch.classes[row * pairs + i]]);
      right += most;
    }
    EXPECT_NEAR(static_cast<double>(right) / static_cast<double>(batch.classes.size()), expected, 0.006) << name;
  }
}

TEST(ParityTaskTest, CountsTheOnesSoFar) {
  const TaskBatch batch = Batch("parity", 2, 9);
  for (int64_t row = 0; row < 2; ++row) {
    int64_t ones = 0;
    for (int64_t i = 0; i < 9; ++i) {
      ones += batch.tokens[9 * row + i];
      EXPECT_EQ(batch.classes[9 * row + i], ones % 2);
    }
  }
}

TEST(ReversalTaskTest, AsksForTheLastFirst) {
  const TaskBatch batch = Batch("reversal", 2, 7);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(batch.classes[7 * row + i], batch.tokens[7 * row + 6 - i]);
  }
}

TEST(PreviousTokenTaskTest, AsksForTheTokenOfItsDistance) {
  for (const auto& [name, distance] :
       std::map<std::string, int64_t>{{"previous-1", 1}, {"previous-3", 3}, {"previous-of-both-1", 1}}) {
    const TaskBatch batch = Batch(name, 2, 9);
    ASSERT_EQ(std::ssize(batch.scored), 2 * (9 - distance)) << name;
    for (std::size_t i = 0; i < batch.scored.size(); ++i) {
      EXPECT_EQ(batch.classes[i], batch.tokens[batch.scored[i] - distance]) << name;
    }
  }
}

TEST(FirstTokenTaskTest, AsksForTheFirstEverywhere) {
  const TaskBatch batch = Batch("first", 2, 5);
  for (std::size_t i = 0; i < batch.scored.size(); ++i) EXPECT_EQ(batch.classes[i], batch.tokens[batch.scored[i] / 5 * 5]);
  EXPECT_EQ(batch.scored, (std::vector<int64_t>{1, 2, 3, 4, 6, 7, 8, 9}));
}

}  // namespace
}  // namespace heed::lab
