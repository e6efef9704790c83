// 2^x on every target, against the long double of the C library.
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "exp2_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "simd/exp2-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
T Exp2Of(T x) {
  const hn::ScalableTag<T> d;
  return hn::GetLane(Exp2(d, hn::Set(d, x)));
}

float Exp2OfFloat(float x) { return Exp2Of(x); }
double Exp2OfDouble(double x) { return Exp2Of(x); }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"

namespace heed {
HWY_EXPORT(Exp2OfFloat);
HWY_EXPORT(Exp2OfDouble);

namespace {

class Exp2 : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { UseTarget(GetParam()); }
  void TearDown() override { UseTarget(""); }
};

template <class T, class F>
double WorstRelativeError(const F& exp2) {
  double worst = 0;
  for (double x = -100; x <= 20; x += 0.00317) {
    const auto argument = static_cast<T>(x);
    const long double exact = std::exp2(static_cast<long double>(argument));
    worst = std::max(worst, static_cast<double>(std::abs(static_cast<long double>(exp2(argument)) - exact) / exact));
  }
  return worst;
}

// The polynomial's own error plus a few roundings of its last steps.
TEST_P(Exp2, IsWithinAFewRoundings) {
  EXPECT_LT(WorstRelativeError<float>([](float x) { return HWY_DYNAMIC_DISPATCH(Exp2OfFloat)(x); }), 2.5e-7);
  EXPECT_LT(WorstRelativeError<double>([](double x) { return HWY_DYNAMIC_DISPATCH(Exp2OfDouble)(x); }), 4e-16);
}

TEST_P(Exp2, HandlesTheEnds) {
  const auto f = [](float x) { return HWY_DYNAMIC_DISPATCH(Exp2OfFloat)(x); };
  const auto g = [](double x) { return HWY_DYNAMIC_DISPATCH(Exp2OfDouble)(x); };
  EXPECT_NEAR(f(0.0f), 1.0f, 1.3e-7f);  // the minimax polynomial spends its error everywhere
  EXPECT_EQ(g(0.0), 1.0);
  EXPECT_EQ(f(-101.0f), 0.0f);
  EXPECT_EQ(g(-101.0), 0.0);
  EXPECT_EQ(f(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(g(-std::numeric_limits<double>::infinity()), 0.0);
  EXPECT_TRUE(std::isnan(f(std::nanf(""))));
  EXPECT_TRUE(std::isnan(g(std::nan(""))));
}

INSTANTIATE_TEST_SUITE_P(Targets, Exp2, ::testing::ValuesIn(SupportedTargets()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace heed
#endif
