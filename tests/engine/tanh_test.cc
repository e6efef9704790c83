// tanh on every target, against the C library.
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tanh_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
T TanhOfOne(T x) {
  const hn::ScalableTag<T> d;
  return hn::GetLane(TanhOf(d, hn::Set(d, x)));
}

float TanhOfFloat(float x) { return TanhOfOne(x); }
double TanhOfDouble(double x) { return TanhOfOne(x); }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "targets.h"

namespace heed {
HWY_EXPORT(TanhOfFloat);
HWY_EXPORT(TanhOfDouble);

namespace {

class Tanh : public OnTarget {
 protected:
  static float Float(float x) { return HWY_DYNAMIC_DISPATCH(TanhOfFloat)(x); }
  static double Double(double x) { return HWY_DYNAMIC_DISPATCH(TanhOfDouble)(x); }
};

// The ratio's own error plus the roundings of its polynomials, in the spacing of the type.
TEST_P(Tanh, IsWithinAFewRoundings) {
  double worst = 0, worst_double = 0;
  for (int i = 0; i < 70000; ++i) {
    const double x = 1e-4 + 1.7e-4 * i;
    const auto argument = static_cast<float>(x);
    const double exact = std::tanh(static_cast<double>(argument));
    worst = std::max(worst, std::abs(static_cast<double>(Float(argument)) / exact - 1));
    worst_double = std::max(worst_double, std::abs(Double(x) / std::tanh(x) - 1));
  }
  EXPECT_LT(worst / std::numeric_limits<float>::epsilon(), 4);
  EXPECT_LT(worst_double / std::numeric_limits<double>::epsilon(), 6);
}

TEST_P(Tanh, HandlesTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float x : {9.1f, 20.0f, 1e20f, std::numeric_limits<float>::max(), infinity}) {
    EXPECT_EQ(Float(x), 1.0f) << x;
    EXPECT_EQ(Float(-x), -1.0f) << x;
  }
  for (int i = 5000; i < 12000; ++i) EXPECT_LE(Float(0.001f * static_cast<float>(i)), 1.0f) << i;
  for (float x : {1e-6f, 1e-30f, std::numeric_limits<float>::denorm_min()}) EXPECT_EQ(Float(-x), -x);
  EXPECT_EQ(Float(0.0f), 0.0f);
  EXPECT_TRUE(std::signbit(Float(-0.0f)));
  EXPECT_TRUE(std::isnan(Float(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(Double(std::numeric_limits<double>::quiet_NaN())));
}

HEED_ON_TARGETS(Tanh);

}  // namespace
}  // namespace heed
#endif
