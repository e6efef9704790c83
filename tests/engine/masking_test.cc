// Masks are predicates: what is masked does not reach the result, whatever it holds; what is visible does.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "problem.h"
#include "targets.h"

namespace heed {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

bool AllFinite(const std::vector<float>& values) {
  for (float x : values)
    if (!std::isfinite(x)) return false;
  return true;
}

class Masking : public OnTarget {
 protected:
  SerialExecutor serial_;
};

// Keys at and beyond their length hold NaN and infinity.
TEST_P(Masking, PlantedNanBeyondTheLengthDoesNotLeak) {
  const Shape shape{2, 2, 2, 70, 150, 16, 20};
  const std::vector<int64_t> lengths{37, 149};
  Attention attention;
  attention.key_lengths = Lengths::PerBatch(lengths.data(), 2);
  Problem<float> clean(shape), planted(shape);
  const auto k = planted.Keys(planted.k);
  const auto v = planted.Values(planted.v);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t j = lengths[static_cast<size_t>(b)]; j < 150; ++j) {
        for (int64_t c = 0; c < 16; ++c) k(b, h, j, c) = c % 2 ? kNan : kInfinity;
        for (int64_t c = 0; c < 20; ++c) v(b, h, j, c) = c % 2 ? kInfinity : kNan;
      }
  clean.Run(attention, serial_);
  planted.Run(attention, serial_);
  EXPECT_EQ(clean.out, planted.out);
  EXPECT_EQ(clean.lse, planted.lse);
  EXPECT_EQ(clean.d_q, planted.d_q);
  EXPECT_EQ(clean.d_k, planted.d_k);
  EXPECT_EQ(clean.d_v, planted.d_v);
  EXPECT_TRUE(AllFinite(planted.out) && AllFinite(planted.d_q) && AllFinite(planted.d_k) && AllFinite(planted.d_v));
}

// Queries whose positions jump see some of the strips of sixteen keys in a tile of 64, in every pattern. What lay in the
// workspace where nobody looks must not count.
TEST_P(Masking, StripsThatNoQuerySeesBetweenOthersAddNothing) {
  constexpr int64_t kQueries = 16, kKeys = 64, kStrip = 16;
  const Shape shape{1, 2, 2, kQueries, kKeys, 16, 16};
  for (int pattern = 1; pattern < 16; ++pattern) {
    SCOPED_TRACE("strips " + std::to_string(pattern));
    std::vector<int64_t> middles;
    for (int64_t strip = 0; strip < kKeys / kStrip; ++strip)
      if (pattern >> strip & 1) middles.push_back(strip * kStrip + kStrip / 2);
    std::vector<int64_t> positions;
    for (int64_t i = 0; i < kQueries; ++i) positions.push_back(middles[static_cast<size_t>(i) % middles.size()]);
    Attention jumps, masked;
    jumps.query_positions.list = View<const int64_t, 2>::Contiguous(positions.data(), {1, kQueries});
    jumps.window = {5, 5};
    const std::unique_ptr<bool[]> visible = std::make_unique<bool[]>(kQueries * kKeys);
    for (int64_t i = 0; i < kQueries; ++i)
      for (int64_t j = 0; j < kKeys; ++j)
        visible[static_cast<size_t>(i * kKeys + j)] = std::abs(j - positions[static_cast<size_t>(i)]) <= 5;
    masked.mask = Mask{View<const bool, 4>::Contiguous(visible.get(), {1, 1, kQueries, kKeys})};
    Problem<float> one(shape), other(shape);
    other.Run(masked, serial_);
    for (int round = 0; round < 2; ++round) {
      one.Forward(jumps, serial_);
      std::memset(one.workspace.data(), 0xFF, one.workspace.size());
      one.Backward(jumps, serial_);
      std::memset(one.workspace.data(), 0xFF, one.workspace.size());
    }
    const auto near = [](const std::vector<float>& a, const std::vector<float>& b) {
      for (size_t x = 0; x < a.size(); ++x)
        if (!(std::abs(a[x] - b[x]) <= 1e-5f)) return false;
      return true;
    };
    EXPECT_TRUE(near(one.out, other.out) && near(one.lse, other.lse));
    EXPECT_TRUE(near(one.d_q, other.d_q) && near(one.d_k, other.d_k) && near(one.d_v, other.d_v));
  }
}

// A dense mask leaves masked keys in the tiles that are computed; what they hold must not reach the tables by offset either.
TEST_P(Masking, PlantedNanBehindADenseMaskDoesNotReachContentTables) {
  const Shape shape{1, 2, 1, 70, 90, 16, 20};
  const std::unique_ptr<bool[]> visible = std::make_unique<bool[]>(70 * 90);
  for (int64_t i = 0; i < 70; ++i)
    for (int64_t j = 0; j < 90; ++j) visible[static_cast<size_t>(i * 90 + j)] = j % 11 != 3;
  std::vector<float> table(11 * 56);
  for (size_t x = 0; x < table.size(); ++x) table[x] = 0.01f * static_cast<float>(x % 83);
  Attention attention;
  attention.mask = Mask{View<const bool, 4>::Contiguous(visible.get(), {1, 1, 70, 90})};
  attention.content_bias.emplace();
  attention.content_bias->keys = View<const float, 2>::Contiguous(table.data(), {11, 16});
  attention.content_bias->values = View<const float, 2>::Contiguous(table.data() + 11 * 16, {11, 20});
  attention.content_bias->queries = View<const float, 2>::Contiguous(table.data() + 11 * 36, {11, 16});
  Problem<float> clean(shape), planted(shape);
  for (int64_t j = 3; j < 90; j += 11) {
    for (int64_t c = 0; c < 16; ++c) planted.Keys(planted.k)(0, 0, j, c) = c % 2 ? kNan : kInfinity;
    for (int64_t c = 0; c < 20; ++c) planted.Values(planted.v)(0, 0, j, c) = c % 2 ? kInfinity : kNan;
  }
  clean.Run(attention, serial_);
  planted.Run(attention, serial_);
  EXPECT_EQ(clean.out, planted.out);
  EXPECT_EQ(clean.lse, planted.lse);
  // Keys that hold NaN take another path through the products, which rounds apart.
  const auto expect_close = [](const std::vector<float>& a, const std::vector<float>& b, const char* what) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t x = 0; x < a.size(); ++x) ASSERT_NEAR(a[x], b[x], 1e-4f) << what << " " << x;
  };
  expect_close(clean.d_q, planted.d_q, "d_q");
  expect_close(clean.d_k, planted.d_k, "d_k");
  expect_close(clean.d_v, planted.d_v, "d_v");
  expect_close(clean.d_bias, planted.d_bias, "gradients of the tables");
}

// Under causality key 40 is visible to queries from 40 on, and to them alone.
TEST_P(Masking, NanInTheFutureDoesNotReachThePast) {
  const Shape shape{1, 1, 1, 100, 100, 16, 16};
  Attention attention;
  attention.causal = Causal::kBottomRight;
  attention.dropout = {0.1, 3, 0};
  Problem<float> clean(shape), planted(shape);
  planted.Keys(planted.k)(0, 0, 40, 3) = kNan;
  planted.Values(planted.v)(0, 0, 40, 5) = kInfinity;
  clean.Run(attention, serial_);
  planted.Run(attention, serial_);
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(std::isnan(planted.Lse()(0, 0, i)), i >= 40) << "query " << i;
    for (int64_t c = 0; c < 16; ++c) {
      if (i < 40) {
        EXPECT_EQ(planted.Outputs(planted.out)(0, 0, i, c), clean.Outputs(clean.out)(0, 0, i, c)) << "query " << i;
        EXPECT_EQ(planted.Queries(planted.d_q)(0, 0, i, c), clean.Queries(clean.d_q)(0, 0, i, c)) << "query " << i;
      } else {
        EXPECT_TRUE(std::isnan(planted.Outputs(planted.out)(0, 0, i, c))) << "query " << i;
      }
    }
  }
}

TEST_P(Masking, NanInALiveInputIsSeen) {
  Problem<float> problem({1, 2, 2, 40, 40, 16, 16});
  problem.Queries(problem.q)(0, 1, 7, 0) = kNan;
  problem.Forward({}, serial_);
  for (int64_t c = 0; c < 16; ++c) {
    EXPECT_TRUE(std::isnan(problem.Outputs(problem.out)(0, 1, 7, c)));
    EXPECT_TRUE(std::isfinite(problem.Outputs(problem.out)(0, 1, 8, c)));
    EXPECT_TRUE(std::isfinite(problem.Outputs(problem.out)(0, 0, 7, c)));
  }
}

// d2l writes -1e6 over masked scores; a true score of -1e7 then loses to the mask. Here it does not.
TEST_P(Masking, HugeNegativeScoresStillBeatTheMask) {
  Problem<float> problem({1, 1, 1, 3, 4, 1, 1});
  problem.q.assign(3, 1.0f);
  problem.k = {-1e7f, -1e7f, 5.0f, 5.0f};
  problem.v = {1.0f, 3.0f, 100.0f, 100.0f};
  const std::vector<int64_t> lengths{2};
  Attention attention;
  attention.key_lengths = Lengths::PerBatch(lengths.data(), 1);
  problem.Forward(attention, serial_);
  for (float x : problem.out) EXPECT_FLOAT_EQ(x, 2.0f);
}

TEST_P(Masking, LargeScoresDoNotOverflow) {
  Problem<float> problem({1, 1, 1, 2, 200, 1, 1});
  problem.q = {1.0f, -1.0f};
  for (size_t j = 0; j < 200; ++j) problem.k[j] = 1e30f * static_cast<float>(j);
  for (size_t j = 0; j < 200; ++j) problem.v[j] = static_cast<float>(j);
  problem.Run({}, serial_);
  EXPECT_FLOAT_EQ(problem.out[0], 199.0f);
  EXPECT_FLOAT_EQ(problem.out[1], 0.0f);
  EXPECT_TRUE(AllFinite(problem.d_v));
}

// An infinite score is NaN, as exp(inf - inf) is.
TEST_P(Masking, InfiniteScoresGiveNan) {
  Problem<float> problem({1, 1, 1, 1, 3, 1, 1});
  problem.q = {1.0f};
  problem.k = {0.0f, kInfinity, 1.0f};
  problem.Forward({}, serial_);
  EXPECT_TRUE(std::isnan(problem.out[0]));
}

TEST_P(Masking, RowsWithoutKeysFollowThePolicy) {
  const Shape shape{1, 1, 1, 5, 4, 8, 8};
  const std::vector<int64_t> lengths{0};
  Attention attention;
  attention.key_lengths = Lengths::PerBatch(lengths.data(), 1);
  Problem<float> zero(shape), uniform(shape);
  zero.Run(attention, serial_);
  attention.empty_row = EmptyRow::kUniform;
  uniform.Run(attention, serial_);
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(zero.Lse()(0, 0, i), -kInfinity);
    EXPECT_FLOAT_EQ(uniform.Lse()(0, 0, i), std::log(4.0f));
    for (int64_t c = 0; c < 8; ++c) {
      const auto v = uniform.Values(uniform.v);
      const float mean = (v(0, 0, 0, c) + v(0, 0, 1, c) + v(0, 0, 2, c) + v(0, 0, 3, c)) / 4;
      EXPECT_EQ(zero.Outputs(zero.out)(0, 0, i, c), 0.0f);
      EXPECT_NEAR(uniform.Outputs(uniform.out)(0, 0, i, c), mean, 1e-6f);
    }
  }
  for (const auto& gradient : {zero.d_q, zero.d_k, zero.d_v, uniform.d_q, uniform.d_k})
    for (float x : gradient) EXPECT_EQ(x, 0.0f);
}

HEED_ON_TARGETS(Masking);

}  // namespace
}  // namespace heed
