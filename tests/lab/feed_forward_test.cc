#include "lab/runs/contender.h"

#include <cmath>

#include <gtest/gtest.h>

namespace heed::lab {
namespace {

// Parameters of a made-up model: what mixes, and two matrices and two vectors a feed-forward sublayer.
int64_t Count(const Contender& contender, int64_t ffn_width) {
  constexpr int64_t kWidth = 24, kLayers = 3;
  const int64_t mixing = contender.encoder == "attention" ? 4 * kWidth * kWidth : contender.encoder == "lstm" ? 5000 : 900;
  const int64_t table = contender.position == "learned" ? 64 * kWidth : 0;
  return table + kLayers * (mixing + ffn_width * (2 * kWidth + 1) + kWidth);
}

TEST(EqualContendersTest, ComeAsNearToTheReferenceAsTheUnitAllows) {
  constexpr int64_t kWidth = 24, kReference = 96, kUnit = 3;  // an eighth of the width
  const int64_t target = Count({"attention", "none"}, kReference);
  const auto sized = EqualContenders({"attention", "convolution", "lstm"}, {"none", "learned"}, kWidth, kReference, Count);
  ASSERT_EQ(sized.size(), 4u);
  for (const SizedContender& contender : sized) {
    EXPECT_EQ(contender.ffn_width % kUnit, 0) << contender.Id();
    EXPECT_EQ(contender.parameters, Count(contender, contender.ffn_width)) << contender.Id();
    const int64_t off = std::abs(contender.parameters - target);
    for (const int64_t other : {contender.ffn_width - kUnit, contender.ffn_width + kUnit})
      EXPECT_LE(off, std::abs(Count(contender, other) - target)) << contender.Id() << " at " << other;
  }
  EXPECT_EQ(sized[0].Id(), "attention-none");
  EXPECT_EQ(sized[0].ffn_width, kReference);
  EXPECT_LT(sized[1].ffn_width, kReference) << "a learned table takes parameters";
  EXPECT_GT(sized[2].ffn_width, kReference) << "a convolution has fewer than attention";
  EXPECT_EQ(sized[3].Id(), "lstm");
}

TEST(EqualContendersTest, KeepAUnitWhereMixingAloneIsTooMuch) {
  const CountParameters heavy = [](const Contender& contender, int64_t ffn_width) {
    return (contender.encoder == "lstm" ? 100000 : 0) + 10 * ffn_width;
  };
  const auto sized = EqualContenders({"lstm"}, {}, 32, 64, heavy);
  ASSERT_EQ(sized.size(), 1u);
  EXPECT_EQ(sized[0].ffn_width, 4);
  EXPECT_EQ(sized[0].parameters, 100040) << "what it has, and not what it should";
}

TEST(EqualContendersTest, TheUnitOfANarrowModelIsOne) {
  const auto sized =
      EqualContenders({"attention"}, {"none"}, 4, 7, [](const Contender&, int64_t ffn_width) { return ffn_width; });
  EXPECT_EQ(sized.front().ffn_width, 7);
}

}  // namespace
}  // namespace heed::lab
