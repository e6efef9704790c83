// Positional tables against their formulas and the numbers that the book prints.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "heed/error.h"
#include "heed/positions.h"

namespace heed {
namespace {

struct Table {
  Table(int64_t steps, int64_t width, int64_t first = 0, SinusoidalOptions options = {})
      : values(static_cast<size_t>(steps * width)), view(View<float, 2>::Contiguous(values.data(), {steps, width})) {
    SinusoidalTable(options, first, view);
  }
  std::vector<float> values;
  View<float, 2> view;
};

TEST(SinusoidalTable, HoldsTheBooksNumbers) {
  const Table table(60, 32);
  const float row1[] = {.8415f, .5403f, .5332f, .8460f}, row59[] = {-.8758f, -.4827f, -.3739f, .9275f};
  for (int64_t c = 0; c < 4; ++c) {
    EXPECT_NEAR(table.view(1, c), row1[c], 5e-5f);
    EXPECT_NEAR(table.view(59, 6 + c), row59[c], 5e-5f);
  }
  for (int64_t c = 0; c < 32; ++c) EXPECT_EQ(table.view(0, c), c % 2 ? 1.0f : 0.0f);
}

TEST(SinusoidalTable, StaysExactAtAMillion) {
  const Table table(1, 128, 1000000);
  for (int64_t t = 0; t < 64; ++t) {
    const long double angle = 1e6L / std::pow(10000.0L, 2.0L * t / 128.0L);
    EXPECT_NEAR(table.view(0, 2 * t), static_cast<double>(std::sin(angle)), 1e-7) << "frequency " << t;
  }
}

// Angles in float, as d2l computes them, are visibly off at a million and agree below a thousand.
TEST(SinusoidalTable, OffersFloatAngles) {
  const SinusoidalOptions in_float{SinusoidalLayout::kInterleaved, 10000.0, Angles::kFloat32};
  const Table far(1, 128, 1000000, in_float), far_exact(1, 128, 1000000), near(100, 128, 0, in_float), near_exact(100, 128);
  double far_error = 0, near_error = 0;
  for (size_t i = 0; i < far.values.size(); ++i)
    far_error = std::max<double>(far_error, std::abs(far.values[i] - far_exact.values[i]));
  for (size_t i = 0; i < near.values.size(); ++i)
    near_error = std::max<double>(near_error, std::abs(near.values[i] - near_exact.values[i]));
  EXPECT_GT(far_error, 1e-3);
  EXPECT_LT(near_error, 1e-5);
}

TEST(SinusoidalTable, TakesOddWidthsAndHalves) {
  const Table odd(4, 5), halves(4, 5, 0, {SinusoidalLayout::kHalves, 10000.0, Angles::kFloat64});
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t t = 0; t < 3; ++t) {
      const double angle = static_cast<double>(i) / std::pow(10000.0, 2.0 * static_cast<double>(t) / 5.0);
      EXPECT_NEAR(odd.view(i, 2 * t), std::sin(angle), 1e-7);
      EXPECT_NEAR(halves.view(i, t), std::sin(angle), 1e-7);
      if (t == 2) continue;
      EXPECT_NEAR(odd.view(i, 2 * t + 1), std::cos(angle), 1e-7);
      EXPECT_NEAR(halves.view(i, 3 + t), std::cos(angle), 1e-7);
    }
}

// tensor2tensor's get_timing_signal_1d: the slowest of the frequencies is 1 / base, and an odd width is padded.
TEST(SinusoidalTable, SpacesFrequenciesUpToTheBaseItself) {
  for (const int64_t width : {2, 5, 8}) {
    const SinusoidalOptions options{SinusoidalLayout::kHalves, 100.0, Angles::kFloat64, SinusoidalSpacing::kInclusive};
    SinusoidalOptions interleaved = options;
    interleaved.layout = SinusoidalLayout::kInterleaved;
    const Table halves(4, width, 3, options), pairs(4, width, 3, interleaved);
    const int64_t timescales = width / 2;
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t t = 0; t < timescales; ++t) {
        const double steps =
            timescales == 1 ? 1.0 : std::pow(100.0, static_cast<double>(t) / static_cast<double>(timescales - 1));
        const double angle = static_cast<double>(3 + i) / steps;
        EXPECT_NEAR(halves.view(i, t), std::sin(angle), 1e-7);
        EXPECT_NEAR(halves.view(i, timescales + t), std::cos(angle), 1e-7);
        EXPECT_EQ(pairs.view(i, 2 * t), halves.view(i, t));
        EXPECT_EQ(pairs.view(i, 2 * t + 1), halves.view(i, timescales + t));
      }
      if (width % 2 == 1) {
        EXPECT_EQ(halves.view(i, width - 1), 0.0f);
        EXPECT_EQ(pairs.view(i, width - 1), 0.0f);
      }
    }
  }
}

TEST(SinusoidalTable, TakesPositionsThatAreListed) {
  const std::vector<double> positions{7, 2.5, -1, 1e6};
  std::vector<float> values(4 * 6);
  const auto view = View<float, 2>::Contiguous(values.data(), {4, 6});
  const auto listed = [&](int64_t count) { return View<const double, 1>::Contiguous(positions.data(), {count}); };
  SinusoidalTable({}, listed(4), view);
  const Table seventh(1, 6, 7), million(1, 6, 1000000);
  for (int64_t c = 0; c < 6; ++c) {
    EXPECT_EQ(view(0, c), seventh.view(0, c));
    EXPECT_EQ(view(3, c), million.view(0, c));
  }
  EXPECT_FLOAT_EQ(view(1, 0), std::sin(2.5f));
  EXPECT_FLOAT_EQ(view(2, 1), std::cos(1.0f));
  EXPECT_THROW(SinusoidalTable({}, listed(3), view), InvalidArgument);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_THROW(
      SinusoidalTable({}, View<const double, 1>::Contiguous(&infinite, {1}), View<float, 2>::Contiguous(values.data(), {1, 6})),
      InvalidArgument);
}

// The inner product of two rows depends on their distance alone, and every row has the norm sqrt(width / 2).
TEST(SinusoidalTable, SeesDistanceAlone) {
  const Table table(50, 64);
  const auto dot = [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t c = 0; c < 64; ++c) sum += static_cast<double>(table.view(i, c)) * static_cast<double>(table.view(j, c));
    return sum;
  };
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_NEAR(dot(i, i), 32.0, 1e-5);
    EXPECT_NEAR(dot(i, i + 7), dot(0, 7), 1e-5);
  }
}

TEST(SinusoidalTable, RefusesWhatItCannotFill) {
  std::vector<float> memory(8);
  EXPECT_THROW(SinusoidalTable({}, 0, View<float, 2>::Contiguous(memory.data(), {4, 0})), InvalidArgument);
  EXPECT_THROW(SinusoidalTable({}, 0, View<float, 2>::Contiguous(nullptr, {4, 2})), InvalidArgument);
  EXPECT_THROW(SinusoidalTable({SinusoidalLayout::kHalves, -1.0, Angles::kFloat64}, 0,
                               View<float, 2>::Contiguous(memory.data(), {4, 2})),
               InvalidArgument);
}

TEST(AlibiSlopes, FollowThePaper) {
  EXPECT_EQ(AlibiSlopes(8), (std::vector<double>{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625}));
  const std::vector<double> twelve = AlibiSlopes(12);
  ASSERT_EQ(twelve.size(), 12u);
  for (size_t h = 0; h < 4; ++h) EXPECT_DOUBLE_EQ(twelve[8 + h], std::exp2(-0.5 * static_cast<double>(2 * h + 1)));
  EXPECT_THROW(AlibiSlopes(0), InvalidArgument);
}

TEST(AlibiTable, FallsWithDistance) {
  std::vector<float> memory(2 * 7);
  const auto table = View<float, 2>::Contiguous(memory.data(), {2, 7});
  AlibiTable({0.5, 0.25}, 3, table);
  for (int64_t delta = -3; delta <= 3; ++delta) {
    EXPECT_EQ(table(0, delta + 3), -0.5f * static_cast<float>(std::abs(delta)));
    EXPECT_EQ(table(1, delta + 3), -0.25f * static_cast<float>(std::abs(delta)));
  }
  EXPECT_THROW(AlibiTable({0.5}, 3, table), InvalidArgument);
}

}  // namespace
}  // namespace heed
