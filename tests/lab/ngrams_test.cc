#include "lab/data/ngrams.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "lab/data/random.h"

namespace heed::lab {
namespace {

using Tokens = std::vector<int32_t>;

// By definition, over all passages, without a hash: how likely `token` is behind `context`.
double Probability(const std::vector<Tokens>& passages, const Tokens& context, int32_t token, double discount, double symbols) {
  std::map<int32_t, double> followers;
  for (const Tokens& passage : passages) {
    for (std::size_t i = context.size(); i < passage.size(); ++i) {
      if (std::equal(context.begin(), context.end(), passage.begin() + static_cast<int64_t>(i - context.size())))
        ++followers[passage[i]];
    }
  }
  const double shorter =
      context.empty() ? 1 / symbols : Probability(passages, {context.begin() + 1, context.end()}, token, discount, symbols);
  double total = 0;
  for (const auto& [follower, count] : followers) total += count;
  if (total == 0) return shorter;
  const double seen = followers.contains(token) ? followers.at(token) : 0;
  return (std::max(seen - discount, 0.0) + discount * static_cast<double>(followers.size()) * shorter) / total;
}

Tokens Drawn(int64_t count, Random& random) {
  Tokens tokens;
  for (int64_t i = 0; i < count; ++i) {
    // Often what stood three tokens before.
    const bool again = i > 2 && random.Below(3) > 0;
    tokens.push_back(again ? tokens[i - 3] : static_cast<int32_t>(random.Below(4)));
  }
  return tokens;
}

TEST(NGramsTest, PredictsByDefinition) {
  Random random(1);
  const std::vector<Tokens> text = {Drawn(60, random), Drawn(40, random)};
  Passages passages(text[0]);
  passages.tokens.insert(passages.tokens.end(), text[1].begin(), text[1].end());
  passages.ends.push_back(passages.size());
  const NGrams grams(passages.tokens, passages.ends, /*symbols=*/5, /*most_order=*/4);
  EXPECT_EQ(grams.order(), 4);
  const Tokens asked = {0, 1, 2, 4, 3, 0, 1, 1};  // 4 never occurs
  for (const double discount : {0.3, 0.9}) {
    const std::vector<double> losses = grams.Losses(asked, discount);
    ASSERT_EQ(losses.size(), 4U);
    for (std::size_t n = 1; n <= 4; ++n) {
      double expected = 0;
      for (std::size_t i = 1; i < asked.size(); ++i) {
        const std::size_t length = std::min(n - 1, i);
        const Tokens context(asked.begin() + static_cast<int64_t>(i - length), asked.begin() + static_cast<int64_t>(i));
        expected -= std::log(Probability(text, context, asked[i], discount, 5)) / static_cast<double>(asked.size() - 1);
      }
      EXPECT_NEAR(losses[n - 1], expected, 1e-12) << "order " << n;
    }
  }
}

TEST(NGramsTest, TheOrderIsChosenOnOneTextAndReportedOnAnother) {
  Random random(2);
  const std::vector<Tokens> validation = {Drawn(500, random)}, test = {Drawn(500, random), Drawn(500, random)};
  const std::vector<CountedText> counted = CountText(Passages(Drawn(20000, random)), 4, validation, test);
  ASSERT_EQ(counted.size(), 3U);
  EXPECT_EQ(counted[0].order, 1);
  EXPECT_EQ(counted[1].order, 2);
  EXPECT_GE(counted[2].order, 4) << "what stood three tokens before is the most there is to know";
  for (const CountedText& of : counted) {
    ASSERT_EQ(of.losses.size(), 2U);
    EXPECT_NE(of.losses[0], of.losses[1]);
    for (const double loss : {of.validation, of.losses[0], of.losses[1]}) {
      EXPECT_NEAR(loss, of.order > 2 ? 0.7 : std::log(4.0), of.order > 2 ? 0.2 : 0.1);
    }
  }
  for (const CountedText& same : CountText(Passages(Drawn(5000, random)), 4, validation, validation))
    EXPECT_DOUBLE_EQ(same.validation, same.losses.front()) << "of the same block";
}

TEST(NGramsTest, MemoryIsBounded) {
  Random random(3);
  Tokens tokens;
  for (int64_t i = 0; i < 1200000; ++i) tokens.push_back(static_cast<int32_t>(random.Below(100000)));
  // Almost every run is different: a million of each order.
  const std::vector<int64_t> ends = {std::ssize(tokens)};
  EXPECT_LE(NGrams(tokens, ends, 100000, 12).order(), 4);
}

}  // namespace
}  // namespace heed::lab
