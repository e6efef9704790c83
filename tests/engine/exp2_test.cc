// 2^x on every target, against the long double of the C library.
#include <bit>
#include <cmath>
#include <cstdint>
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
  return hn::GetLane(PowerOfTwo(d, hn::Set(d, x)));
}

float Exp2OfFloat(float x) { return Exp2Of(x); }
double Exp2OfDouble(double x) { return Exp2Of(x); }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include "heed/attention.h"
#include "targets.h"

namespace heed {
HWY_EXPORT(Exp2OfFloat);
HWY_EXPORT(Exp2OfDouble);

namespace {

class Exp2 : public OnTarget {};

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
  EXPECT_EQ(f(0.0f), 1.0f);
  EXPECT_EQ(g(0.0), 1.0);
  EXPECT_EQ(f(-101.0f), 0.0f);
  EXPECT_EQ(g(-101.0), 0.0);
  EXPECT_EQ(f(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_EQ(g(-std::numeric_limits<double>::infinity()), 0.0);
}

// Whatever its payload: bits added to the exponent of a NaN would make it a number.
TEST_P(Exp2, LeavesNanWhatItIs) {
  for (uint32_t payload = 1; payload < 0x400000; payload = payload * 3 + 1)
    for (const uint32_t bits : {0x7F800000u | payload, 0x7FC00000u | payload, 0xFF800000u | payload, 0xFFC00000u | payload})
      EXPECT_TRUE(std::isnan(HWY_DYNAMIC_DISPATCH(Exp2OfFloat)(std::bit_cast<float>(bits)))) << std::hex << bits;
  for (uint64_t payload = 1; payload < (uint64_t{1} << 51); payload = payload * 5 + 1)
    for (const uint64_t high : {0x7FF0000000000000u, 0x7FF8000000000000u, 0xFFF8000000000000u})
      EXPECT_TRUE(std::isnan(HWY_DYNAMIC_DISPATCH(Exp2OfDouble)(std::bit_cast<double>(high | payload)))) << std::hex << payload;
}

HEED_ON_TARGETS(Exp2);

}  // namespace
}  // namespace heed
#endif
