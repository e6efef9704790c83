#include "lab/data/corpus.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "heed/error.h"
#include "tests/error_text.h"

namespace heed::lab {
namespace {

// Every character once, so that a token tells its place.
Text Counting(int64_t count) {
  Text text{"counting", {}};
  for (int64_t i = 0; i < count; ++i) text.characters.push_back(static_cast<char32_t>(0x10000 + i));
  return text;
}

TEST(PartsTest, EveryCharacterIsInOnePartAndPassagesDoNotJump) {
  for (const int64_t length : {330, 4000, 100003}) {
    const TextParts parts = SplitText(Counting(length), 32);
    std::set<int32_t> seen(parts.train.tokens.begin(), parts.train.tokens.end());
    int64_t count = parts.train.size();
    for (const auto& part : {parts.validation, parts.test}) {
      ASSERT_FALSE(part.empty());
      for (const std::vector<int32_t>& block : part) {
        EXPECT_EQ(std::ssize(block), parts.block);
        EXPECT_EQ(block.front() % parts.block, 0) << "blocks begin where blocks begin";
        for (std::size_t i = 1; i < block.size(); ++i) ASSERT_EQ(block[i], block[i - 1] + 1);
        seen.insert(block.begin(), block.end());
        count += std::ssize(block);
      }
    }
    EXPECT_EQ(count, length);
    EXPECT_EQ(std::ssize(seen), length);
    EXPECT_EQ(parts.train.ends.back(), parts.train.size());
    int64_t begin = 0;
    for (const int64_t end : parts.train.ends) {
      ASSERT_LT(begin, end);
      for (int64_t i = begin + 1; i < end; ++i) ASSERT_EQ(parts.train.tokens[i], parts.train.tokens[i - 1] + 1);
      begin = end;
    }
  }
}

TEST(PartsTest, OneOfTenBlocksValidatesAndOneTestsAllOverTheText) {
  const TextParts parts = SplitText(Counting(400000), 64);
  EXPECT_EQ(parts.block, 2000);
  ASSERT_EQ(parts.validation.size(), 20U);
  ASSERT_EQ(parts.test.size(), 20U);
  std::set<int64_t> places;
  for (std::size_t i = 0; i < 20; ++i) {
    for (const auto& block : {parts.validation[i], parts.test[i]}) {
      const int64_t number = block.front() / parts.block;
      EXPECT_EQ(number / 10, static_cast<int64_t>(i)) << "one of every ten";
      places.insert(number % 10);
    }
  }
  EXPECT_GT(places.size(), 5U) << "not always the same ones";
  EXPECT_EQ(SplitText(Counting(400000), 64).test, parts.test) << "the same parts whenever it is split";
}

TEST(PartsTest, BlocksHoldTheLongestWindow) {
  EXPECT_EQ(SplitText(Counting(20000), 512).block, 513);
  EXPECT_EQ(SplitText(Counting(1000000), 64).block, 2048);
}

// The shortest text that is accepted is the one that the message asks for.
TEST(PartsTest, RefusesATextWithoutTenBlocksAndSaysWhatItNeeds) {
  for (const int64_t longest : {1, 4, 32, 63}) {
    const int64_t needed = 10 * (longest + 1);
    const std::string message = WhatOf<InvalidArgument>([&] { SplitText(Counting(needed - 1), longest); });
    EXPECT_TRUE(Holds(message, "'counting'") && Holds(message, "at least " + std::to_string(needed))) << message;
    EXPECT_EQ(SplitText(Counting(needed), longest).test.size(), 1U);
  }
}

TEST(PartsTest, ThinKeepsBlocksAllOverTheText) {
  const auto firsts = [](int64_t characters) {
    TextParts parts;
    parts.block = 100;
    for (int32_t i = 0; i < 10; ++i) {
      parts.test.push_back(std::vector<int32_t>(100, i)), parts.test_at.push_back(1000 * i);
      parts.validation.push_back(parts.test.back()), parts.validation_at.push_back(7);
    }
    parts.Thin(100, characters);
    EXPECT_EQ(parts.validation.size() * parts.validation_at.size(), 1U);
    std::vector<int32_t> kept;
    for (std::size_t i = 0; i < parts.test.size(); ++i) {
      kept.push_back(parts.test[i].front());
      EXPECT_EQ(parts.test_at[i], 1000 * kept.back());
    }
    return kept;
  };
  EXPECT_EQ(firsts(500), (std::vector<int32_t>{0, 2, 4, 6, 8}));
  EXPECT_EQ(firsts(299), (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(firsts(1), (std::vector<int32_t>{0})) << "one at least";
  EXPECT_EQ(firsts(1 << 30).size(), 10U);
}

TEST(PartsTest, BlocksAreWhereTheTextHasThem) {
  const Text text = Counting(4000);
  const TextParts parts = SplitText(text, 32);
  const std::vector<int32_t> tokens = parts.vocabulary.Encode(text);
  ASSERT_EQ(parts.test.size(), parts.test_at.size());
  for (std::size_t i = 0; i < parts.test.size(); ++i)
    EXPECT_TRUE(std::equal(parts.test[i].begin(), parts.test[i].end(), tokens.begin() + parts.test_at[i])) << i;
}

}  // namespace
}  // namespace heed::lab
