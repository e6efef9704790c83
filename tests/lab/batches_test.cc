#include "lab/data/batches.h"

#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"

namespace heed::lab {
namespace {

std::vector<int64_t> Values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

// Token i is i, so that a token tells its place.
std::vector<int32_t> Counting(int32_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(Batches, CausalTargetsFollowTheInputs) {
  Random random(1);
  const Batch batch = RandomBatch(Passages(Counting(100)), {Objective::kCausal, 8, 5, 100}, random);
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<int64_t>{5, 8}));
  const std::vector<int64_t> inputs = Values(batch.inputs), targets = Values(batch.targets);
  ASSERT_EQ(targets.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) EXPECT_EQ(targets[i], inputs[i] + 1);
  EXPECT_FALSE(batch.rows.defined());
}

TEST(Batches, RandomWindowsReachBothEndsOfTheTokens) {
  Random random(2);
  std::set<int64_t> starts, last_targets;
  for (int i = 0; i < 200; ++i) {
    const Batch batch = RandomBatch(Passages(Counting(12)), {Objective::kCausal, 8, 4, 12}, random);
    for (int64_t window = 0; window < 4; ++window) {
      starts.insert(Values(batch.inputs)[window * 8]);
      last_targets.insert(Values(batch.targets)[window * 8 + 7]);
    }
  }
  EXPECT_EQ(starts, (std::set<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(last_targets, (std::set<int64_t>{8, 9, 10, 11}));
}

TEST(Batches, RandomWindowsLieWithinAPassage) {
  // Passages of 12, 4 and 20 tokens; the second is too short for a window of 8 and the token behind it.
  Passages passages(Counting(36));
  passages.ends = {12, 16, 36};
  Random random(2);
  std::set<int64_t> starts;
  for (int i = 0; i < 300; ++i) {
    const Batch batch = RandomBatch(passages, {Objective::kCausal, 8, 4, 36}, random);
    for (int64_t window = 0; window < 4; ++window) starts.insert(Values(batch.inputs)[window * 8]);
  }
  std::set<int64_t> expected = {0, 1, 2, 3};
  for (int64_t start = 16; start < 28; ++start) expected.insert(start);
  EXPECT_EQ(starts, expected);
}

TEST(Batches, TheSameSeedGivesTheSameBatches) {
  for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
    Random first(9), second(9), other(10);
    const WindowOptions options{objective, 16, 4, 500};
    const auto inputs = [&](Random& random) { return Values(RandomBatch(Passages(Counting(500)), options, random).inputs); };
    const std::vector<int64_t> expected = inputs(first);
    EXPECT_EQ(inputs(second), expected);
    EXPECT_NE(inputs(other), expected);
  }
}

TEST(Batches, MaskedWindowsHideFifteenPercent) {
  Random random(3);
  constexpr int32_t kMask = 1000;
  const Batch batch = RandomBatch(Passages(Counting(1000)), {Objective::kMasked, 40, 7, kMask}, random);
  const std::vector<int64_t> inputs = Values(batch.inputs), targets = Values(batch.targets), rows = Values(batch.rows);
  ASSERT_EQ(rows.size(), 7u * 6);  // 0.15 * 40
  EXPECT_EQ(std::set<int64_t>(rows.begin(), rows.end()).size(), rows.size());
  EXPECT_EQ(std::count(inputs.begin(), inputs.end(), kMask), static_cast<int64_t>(rows.size()));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(inputs[rows[i]], kMask);
    EXPECT_EQ(rows[i] / 40, static_cast<int64_t>(i) / 6);  // each window hides as many
    // A visible token of the same window tells where the window begins.
    const int64_t window = rows[i] / 40 * 40;
    for (int64_t j = 0; j < 40; ++j) {
      if (inputs[window + j] != kMask) {
        EXPECT_EQ(targets[i] - inputs[window + j], rows[i] - (window + j));
        break;
      }
    }
  }
}

TEST(Batches, AShortMaskedWindowHidesAtLeastOne) {
  Random random(4);
  EXPECT_EQ(RandomBatch(Passages(Counting(50)), {Objective::kMasked, 1, 3, 50}, random).targets.numel(), 3);
}

// Whatever the remainder, every token but the first is predicted once, in order.
TEST(Batches, ConsecutiveWindowsPredictEveryTokenOnce) {
  for (const int32_t count : {2, 8, 9, 10, 33, 34, 40, 41}) {
    std::vector<int64_t> targets;
    const int64_t predictions = ForEachBatch(Counting(count), {Objective::kCausal, 8, 2, count}, [&](const Batch& batch) {
      EXPECT_LE(batch.inputs.size(0), 2);
      for (const int64_t target : Values(batch.targets)) targets.push_back(target);
    });
    ASSERT_EQ(predictions, count - 1);
    ASSERT_EQ(static_cast<int64_t>(targets.size()), predictions);
    for (int64_t i = 0; i < predictions; ++i) EXPECT_EQ(targets[i], i + 1);
  }
}

TEST(Batches, ConsecutiveMaskedWindowsAreTheSameInEveryPass) {
  std::vector<int64_t> passes[2];
  for (auto& pass : passes) {
    int64_t tokens = 0;
    ForEachBatch(Counting(105), {Objective::kMasked, 20, 2, 105}, [&](const Batch& batch) {
      tokens += batch.inputs.numel();
      for (const int64_t target : Values(batch.targets)) pass.push_back(target);
    });
    EXPECT_EQ(tokens, 105);
    EXPECT_EQ(pass.size(), 5u * 3 + 1);  // round(0.15 * 20) for each full window, one for the last of 5 steps
  }
  EXPECT_EQ(passes[0], passes[1]);
}

TEST(Batches, ObjectivesHaveNames) {
  for (const Objective objective : {Objective::kCausal, Objective::kMasked}) {
    EXPECT_EQ(ParseObjective(ToString(objective)), objective);
  }
  EXPECT_THROW(ParseObjective("next"), InvalidArgument);
}

TEST(ForEachBatch, WindowsThatOverlapPredictEachTokenOnceWithAsManyBeforeIt) {
  for (const int64_t count : {6, 9, 12, 13, 16, 30, 41}) {
    std::vector<int64_t> predicted;
    const int64_t predictions =
        ForEachBatch(Counting(count), {Objective::kCausal, 8, 3, static_cast<int32_t>(count), 4}, [&](const Batch& batch) {
          const at::Tensor inputs = batch.inputs.flatten();
          for (int64_t i = 0; i < batch.targets.numel(); ++i) {
            const int64_t row = batch.rows.defined() ? batch.rows[i].item<int64_t>() : i;
            const int64_t target = batch.targets[i].item<int64_t>(), before = row % batch.inputs.size(1) + 1;
            EXPECT_EQ(inputs[row].item<int64_t>(), target - 1);
            EXPECT_GE(before, std::min<int64_t>(target, 5)) << "tokens that it is predicted from";
            predicted.push_back(target);
          }
        });
    EXPECT_EQ(predictions, count - 1);
    std::ranges::sort(predicted);
    ASSERT_EQ(std::ssize(predicted), count - 1) << count;
    for (int64_t i = 0; i < count - 1; ++i) EXPECT_EQ(predicted[i], i + 1);
  }
}

}  // namespace
}  // namespace heed::lab
