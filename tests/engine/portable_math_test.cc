// heed's own elementary functions beside those of long double, and where numbers end.
#include "heed/portable_math.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <random>

#include <gtest/gtest.h>

namespace heed {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity(), kNotANumber = std::numeric_limits<double>::quiet_NaN();

// How far off a result is, in units of its last place.
template <class T>
double UnitsOff(T computed, long double exact) {
  if (computed == exact) return 0;
  int exponent = 0;
  std::frexp(static_cast<T>(exact), &exponent);
  const int least = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  const long double unit = std::ldexp(1.0L, std::max(exponent - std::numeric_limits<T>::digits, least));
  return static_cast<double>(std::abs(computed - exact) / unit);
}

// The largest error over numbers of both signs and of sizes 2^low to 2^high.
template <class T>
double Worst(T (*f)(T), long double (*exact)(long double), int low, int high, bool positive = false) {
  std::mt19937_64 random(3);
  double worst = 0;
  for (int turn = 0; turn < 200000; ++turn) {
    const double part = static_cast<double>(random()) * 0x1p-64;
    const double size = std::exp2(low + (high - low) * part);
    const auto x = static_cast<T>(!positive && random() % 2 != 0 ? -size : size);
    worst = std::max(worst, UnitsOff(f(x), exact(x)));
  }
  return worst;
}

TEST(PortableMath, IsWithinItsErrors) {
  using Double = double (*)(double);
  const auto of = [](Double f, long double (*exact)(long double), int low, int high, bool positive = false) {
    return Worst<double>(f, exact, low, high, positive);
  };
  EXPECT_LT(of(portable::Exp, std::exp, -40, 9), 0.6);
  EXPECT_LT(of(portable::Exp2, std::exp2, -40, 10), 0.6);
  EXPECT_LT(of(portable::Expm1, std::expm1, -40, 9), 1);
  EXPECT_LT(of(portable::Log, std::log, -1000, 1000, true), 0.6);
  EXPECT_LT(of(portable::Log, std::log, -1, 1, true), 0.6);
  EXPECT_LT(of(portable::Log1p, std::log1p, -40, 40, true), 0.6);
  EXPECT_LT(of(portable::Sin, std::sin, -40, 20), 0.8);
  EXPECT_LT(of(portable::Cos, std::cos, -40, 20), 0.8);
  EXPECT_LT(of(portable::Sin, std::sin, 20, 62), 1.2);
  EXPECT_LT(of(portable::Cos, std::cos, 20, 62), 1.2);
  EXPECT_LT(of(portable::Tanh, std::tanh, -30, 5), 2.5);
  EXPECT_LT(of(portable::Erf, std::erf, -40, 3), 2.5);
}

TEST(PortableMath, OfFloatsIsWithinItsErrors) {
  EXPECT_LT(Worst<float>(portable::Exp, std::exp, -30, 6), 0.51);
  EXPECT_LT(Worst<float>(portable::Tanh, std::tanh, -30, 5), 0.51);
  EXPECT_LT(Worst<float>(portable::Erf, std::erf, -30, 3), 0.52);
}

TEST(PortableMath, PowersAreWithinTheirErrors) {
  std::mt19937_64 random(4);
  for (int turn = 0; turn < 200000; ++turn) {
    const double x = std::exp2(40 * (static_cast<double>(random()) * 0x1p-64) - 20);
    const double y = 20 * (static_cast<double>(random()) * 0x1p-64) - 10;
    const double units = UnitsOff(portable::Pow(x, y), std::pow(static_cast<long double>(x), static_cast<long double>(y)));
    EXPECT_LT(units, 0.6 + std::abs(y * std::log(x)) / 16) << x << " to the power " << y;
  }
  EXPECT_EQ(portable::Pow(3, 5), 243);
  EXPECT_EQ(portable::Pow(10000, 0.5), 100);
  EXPECT_EQ(portable::Pow(2, -1074), std::numeric_limits<double>::denorm_min());
}

TEST(PortableMath, LargeAnglesAreReducedExactly) {
  // The double that lies closest to a multiple of pi / 2 (Muller et al. 2010, "Handbook of Floating-Point Arithmetic").
  EXPECT_LT(UnitsOff(portable::Cos(6381956970095103.0 * 0x1p797), -4.6871659242546276111e-19L), 0.6);
  // Where the least of the pieces of pi / 2 counts most.
  const double far = 826882.8943881015;
  EXPECT_LT(UnitsOff(portable::Sin(far), std::sin(static_cast<long double>(far))), 1.2);
  EXPECT_LT(UnitsOff(portable::Sin(1e22), -0.85220084976718880177L), 0.6);
  EXPECT_LT(UnitsOff(portable::Sin(std::numbers::pi), 1.2246467991473531772e-16L), 0.6);
}

TEST(PortableMath, EndsAsCSays) {
  const double ends[] = {0.0, -0.0,  1.0,    -1.0,   0.5,     -0.5,      2,          -2,         3,
                         -3,  1e300, -1e300, 5e-324, -5e-324, kInfinite, -kInfinite, kNotANumber};
  const auto same = [](double a, double b) {
    return std::isnan(a) || std::isnan(b) ? std::isnan(a) && std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
  };
  for (const double x : ends) {
    for (const auto& [f, g] :
         std::initializer_list<std::pair<double (*)(double), double (*)(double)>>{{portable::Exp, std::exp},
                                                                                  {portable::Exp2, std::exp2},
                                                                                  {portable::Log, std::log},
                                                                                  {portable::Log1p, std::log1p},
                                                                                  {portable::Expm1, std::expm1},
                                                                                  {portable::Tanh, std::tanh},
                                                                                  {portable::Erf, std::erf}}) {
      const double expected = g(x), computed = f(x);
      if (std::isfinite(expected) && expected != 0) {
        EXPECT_NEAR(computed / expected, 1, 1e-15) << x;
      } else {
        EXPECT_TRUE(same(computed, expected)) << x << ": " << computed << ", " << expected;
      }
    }
    for (const double y : ends) {
      const double expected = std::pow(x, y), computed = portable::Pow(x, y);
      if (std::isfinite(expected) && expected != 0) {
        EXPECT_NEAR(computed / expected, 1, 1e-15) << x << " " << y;
      } else {
        EXPECT_TRUE(same(computed, expected)) << x << " " << y << ": " << computed << ", " << expected;
      }
    }
  }
  EXPECT_TRUE(same(portable::Sin(-0.0), -0.0));
  EXPECT_TRUE(std::isnan(portable::Sin(kInfinite)) && std::isnan(portable::Cos(-kInfinite)) &&
              std::isnan(portable::Cos(kNotANumber)));
  constexpr float kFloatInfinity = std::numeric_limits<float>::infinity(), kFloatNan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(portable::Exp(-kFloatInfinity), 0.0f);
  EXPECT_EQ(portable::Exp(kFloatInfinity), kFloatInfinity);
  EXPECT_EQ(portable::Exp(88.8f), kFloatInfinity);
  for (const float x : {88.7f, -87.5f, -103.9f})
    EXPECT_NEAR(portable::Exp(x), std::exp(x), std::max(std::exp(x) * 1e-7f, std::numeric_limits<float>::denorm_min())) << x;
  for (float (*const f)(float) :
       {static_cast<float (*)(float)>(portable::Tanh), static_cast<float (*)(float)>(portable::Erf)}) {
    EXPECT_EQ(f(kFloatInfinity), 1.0f);
    EXPECT_EQ(f(-kFloatInfinity), -1.0f);
    EXPECT_TRUE(f(-0.0f) == 0.0f && std::signbit(f(-0.0f)));
    EXPECT_TRUE(std::isnan(f(kFloatNan)));
  }
  EXPECT_TRUE(std::isnan(portable::Exp(kFloatNan)));
}

}  // namespace
}  // namespace heed
