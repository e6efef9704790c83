// T5's buckets against their definition, with ties that rounded logarithms get wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "heed/error.h"
#include "heed/positions.h"

namespace heed {
namespace {

std::vector<int64_t> Buckets(const T5Options& options, int64_t reach) {
  std::vector<int64_t> buckets(static_cast<size_t>(2 * reach + 1));
  T5Buckets(options, reach, View<int64_t, 1>::Contiguous(buckets.data(), {2 * reach + 1}));
  return buckets;
}

TEST(T5Thresholds, AreThoseOfThePaper) {
  EXPECT_EQ(T5Thresholds({32, 128, true}), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91}));
}

// E (M/E)^(k/W) is whole for E = 8, M = 512 and W = 8 whenever 6k is a multiple of 8, and always for M/E = 2^W.
TEST(T5Thresholds, PutExactPowersIntoTheHigherBucket) {
  const std::vector<int64_t> coarse = T5Thresholds({16, 512, false});
  EXPECT_EQ(coarse[8 + 4], 64);
  const std::vector<int64_t> doubling = T5Thresholds({16, 8 * 256, false});
  for (int64_t k = 0; k < 8; ++k) EXPECT_EQ(doubling[static_cast<size_t>(8 + k)], 8 << k);
  const std::vector<int64_t> tripling = T5Thresholds({10, 5 * 243, false});
  for (int64_t k = 0, power = 5; k < 5; ++k, power *= 3) EXPECT_EQ(tripling[static_cast<size_t>(5 + k)], power);
}

// By the definition in long double, except within its rounding of a whole number, where the neighbours must differ from it.
TEST(T5Thresholds, FollowTheDefinitionEverywhere) {
  int64_t ties = 0;
  for (int64_t buckets = 2; buckets <= 70; ++buckets)
    for (int64_t max_distance :
         {buckets / 2 + 1, buckets / 2 * 2, buckets * 4, buckets / 2 * 64, int64_t{1000}, int64_t{1} << 30}) {
      if (max_distance <= buckets / 2) continue;
      const int64_t exact = buckets / 2, wide = buckets - exact;
      const std::vector<int64_t> thresholds = T5Thresholds({buckets, max_distance, false});
      ASSERT_EQ(thresholds.size(), static_cast<size_t>(buckets));
      const auto place = [&](int64_t x) {
        return std::log(static_cast<long double>(x) / exact) / std::log(static_cast<long double>(max_distance) / exact) * wide;
      };
      for (int64_t b = 0; b < buckets; ++b) {
        const int64_t x = thresholds[static_cast<size_t>(b)], k = b - exact;
        if (b <= exact) {
          EXPECT_EQ(x, b);
          continue;
        }
        constexpr long double kRounding = 1e-15L;
        EXPECT_GE(place(x), k - kRounding * wide) << buckets << " " << max_distance << " bucket " << b;
        EXPECT_LT(x > exact ? place(x - 1) : 0.0L, k - kRounding * wide) << buckets << " " << max_distance << " bucket " << b;
        if (std::abs(place(x) - k) < kRounding * wide) ++ties;
      }
    }
  EXPECT_GT(ties, 100) << "the table has cases that rounding could decide either way";
}

TEST(T5Buckets, SplitSidesOrIgnoreLaterKeys) {
  const std::vector<int64_t> both = Buckets({8, 16, true}, 20), causal = Buckets({8, 16, false}, 20);
  const std::vector<int64_t> both_side = T5Thresholds({8, 16, true}), causal_side = T5Thresholds({8, 16, false});
  const auto bucket = [](const std::vector<int64_t>& thresholds, int64_t distance) {
    int64_t b = 0;
    for (size_t i = 0; i < thresholds.size(); ++i)
      if (thresholds[i] <= distance) b = static_cast<int64_t>(i);
    return b;
  };
  for (int64_t delta = -20; delta <= 20; ++delta) {
    const auto at = static_cast<size_t>(delta + 20);
    EXPECT_EQ(both[at], bucket(both_side, std::abs(delta)) + (delta > 0 ? 4 : 0)) << delta;
    EXPECT_EQ(causal[at], bucket(causal_side, delta < 0 ? -delta : 0)) << delta;
  }
  EXPECT_EQ(both.front(), 3);
  EXPECT_EQ(both.back(), 7);
  EXPECT_EQ(Buckets({8, 16, true}, 0), std::vector<int64_t>{0});
}

TEST(T5Buckets, RefuseWhatHasNoBuckets) {
  for (const T5Options& options :
       {T5Options{3, 128, true}, T5Options{7, 128, true}, T5Options{1, 128, false}, T5Options{32, 8, true},
        T5Options{32, 16, false}, T5Options{8192, 100000, true}, T5Options{32, int64_t{1} << 31, true}})
    EXPECT_THROW(T5Thresholds(options), InvalidArgument) << options.buckets << " " << options.max_distance;
  std::vector<int64_t> memory(5);
  EXPECT_THROW(T5Buckets({}, 3, View<int64_t, 1>::Contiguous(memory.data(), {5})), InvalidArgument);
  EXPECT_THROW(T5Buckets({}, -1, View<int64_t, 1>::Contiguous(memory.data(), {0})), InvalidArgument);
}

}  // namespace
}  // namespace heed
