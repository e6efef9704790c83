// Decoding with a cache: step by step, in chunks, after truncation and reordering, against the whole pass.
#include "heed/cache.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "problem.h"
#include "tests/error_text.h"

namespace heed {
namespace {

// Tokens first .. first + count - 1 of all heads.
template <class T>
View<T, 4> Tokens(View<T, 4> view, int64_t first, int64_t count) {
  view.data += first * view.stride[2];
  view.extent[2] = count;
  return view;
}

class CachedDecoding : public ::testing::Test {
 protected:
  static constexpr int64_t kTokens = 150;

  CachedDecoding() {
    attention_.causal = Causal::kBottomRight;
    attention_.slope_bias = SlopeBias{View<const double, 1>::Contiguous(slopes_.data(), {4}), true};
    attention_.window = {90, -1};
    whole_.Forward(attention_, serial_);
  }

  // The largest difference of queries first .. first + count - 1 from the whole pass, with the cache filled up to them.
  double Step(KeyValueCache<double>& cache, int64_t first, int64_t count) {
    const View<const double, 4> keys = whole_.Keys(whole_.k), values = whole_.Values(whole_.v);
    cache.Append(Tokens(keys, first, count), Tokens(values, first, count));
    std::vector<double> memory(static_cast<size_t>(2 * 4 * count * 16));
    const auto out = View<double, 4>::Contiguous(memory.data(), {2, 4, count, 16});
    const View<const double, 4> queries = whole_.Queries(whole_.q);
    cache.Attend(attention_, Tokens(queries, first, count), out, {}, workspace_, serial_);
    const auto expected = Tokens(whole_.Outputs(whole_.out), first, count);
    double worst = 0;
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t i = 0; i < count; ++i)
          for (int64_t c = 0; c < 16; ++c) worst = std::max(worst, std::abs(out(b, h, i, c) - expected(b, h, i, c)));
    return worst;
  }

  std::vector<double> slopes_{0.5, 0.25, 0.125, 0.0625};
  Attention attention_;
  Problem<double> whole_{{2, 4, 2, kTokens, kTokens, 16, 16}};
  SerialExecutor serial_;
  Workspace workspace_;
};

// Four eps of the largest score, which slopes of 0.5 over 90 positions set.
constexpr double kTolerance = 4 * std::numeric_limits<double>::epsilon() * 45;

TEST_F(CachedDecoding, StepByStepEqualsTheWholePass) {
  KeyValueCache<double> cache(2, 2, 16, 16);
  for (int64_t t = 0; t < kTokens; ++t) ASSERT_LT(Step(cache, t, 1), kTolerance) << "token " << t;
  EXPECT_EQ(cache.length(), kTokens);
  EXPECT_LT(cache.capacity(), 2 * kTokens);
}

TEST_F(CachedDecoding, InChunksAndAgainAfterTruncation) {
  KeyValueCache<double> cache(2, 2, 16, 16, 64);
  EXPECT_LT(Step(cache, 0, 60), kTolerance);
  EXPECT_LT(Step(cache, 60, 40), kTolerance);
  cache.Truncate(37);
  EXPECT_LT(Step(cache, 37, 113), kTolerance);
}

TEST_F(CachedDecoding, ReorderingMovesRows) {
  KeyValueCache<double> cache(2, 2, 16, 16);
  Step(cache, 0, 10);
  const std::vector<double> before(cache.Keys().data, cache.Keys().data + 1);
  const double second = cache.Keys()(1, 1, 9, 3), value = cache.Values()(1, 0, 2, 5);
  const std::vector<int64_t> rows{1, 1, 0};
  cache.Reorder(View<const int64_t, 1>::Contiguous(rows.data(), {3}));
  EXPECT_EQ(cache.batch(), 3);
  EXPECT_EQ(cache.length(), 10);
  EXPECT_EQ(cache.Keys()(0, 1, 9, 3), second);
  EXPECT_EQ(cache.Values()(1, 0, 2, 5), value);
  EXPECT_EQ(cache.Keys()(2, 0, 0, 0), before[0]);
}

TEST_F(CachedDecoding, RefusesWhatDoesNotFitAndStaysAsItWas) {
  KeyValueCache<double> cache(2, 2, 16, 16);
  Step(cache, 0, 5);
  const View<const double, 4> keys = whole_.Keys(whole_.k);
  auto narrow = Tokens(keys, 5, 1);
  narrow.extent[3] = 8;
  EXPECT_THROW(cache.Append(Tokens(keys, 5, 1), narrow), InvalidArgument);
  EXPECT_THROW(cache.Append(Tokens(keys, 5, 1), Tokens(keys, 5, 2)), InvalidArgument);
  EXPECT_THROW(cache.Truncate(6), InvalidArgument);
  const std::vector<int64_t> rows{0, 2};
  EXPECT_THROW(cache.Reorder(View<const int64_t, 1>::Contiguous(rows.data(), {2})), InvalidArgument);
  EXPECT_THROW(KeyValueCache<float>(1, -1, 4, 4), InvalidArgument);
  for (const std::array<int64_t, 4> extent : {std::array<int64_t, 4>{1, 2, 3, 16}, {2, 3, 3, 16}, {2, 2, 3, 8}}) {
    const std::vector<double> numbers(2 * 3 * 3 * 16);
    std::vector<double> results(numbers.size());
    const auto attend = [&] {
      cache.Attend(attention_, View<const double, 4>::Contiguous(numbers.data(), extent),
                   View<double, 4>::Contiguous(results.data(), extent), {}, workspace_, serial_);
    };
    EXPECT_TRUE(
        WhatOf<InvalidArgument>(attend).starts_with("q: expected [B, Hq, Nq, D] beside the keys of the cache, which are"));
  }
  EXPECT_EQ(cache.length(), 5);
  EXPECT_LT(Step(cache, 5, 5), kTolerance);
}

}  // namespace
}  // namespace heed
