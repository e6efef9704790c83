#include "heed/portable_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numbers>

namespace heed::portable {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

// high + low, where low is at most half a unit in the last place of high.
struct Double2 {
  double high, low;
};

// a + b, and a * b, exactly (Dekker 1971, "A floating-point technique for extending the available precision"; Knuth, "The Art
// of Computer Programming" 2, section 4.2.2). Products: of numbers below 2^990 whose product is a normal number.
Double2 Sum(double a, double b) {
  const double sum = a + b, other = sum - a;
  return {sum, (a - (sum - other)) + (b - other)};
}
Double2 Halves(double a) {
  constexpr double kSplit = 134217729;  // 2^27 + 1
  const double scaled = kSplit * a, high = scaled - (scaled - a);
  return {high, a - high};
}
Double2 Product(double a, double b) {
  const double product = a * b;
  const Double2 x = Halves(a), y = Halves(b);
  return {product, ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

// The nearest whole number of one below 2^51, ties to even.
double Rounded(double x) {
  constexpr double kMagic = 6755399441055744;  // 1.5 * 2^52
  return (x + kMagic) - kMagic;
}

double PowerOf2(int exponent) {  // -1022 .. 1023
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}
// x * 2^exponent, rounded once more where it is below the normal numbers.
double Scaled(double x, int exponent) {
  if (exponent > 1023) return x * PowerOf2(1023) * PowerOf2(exponent - 1023);
  if (exponent < -1022) return x * PowerOf2(exponent + 200) * PowerOf2(-200);
  return x * PowerOf2(exponent);
}

template <int kCount>
double Polynomial(double x, const double (&coefficients)[kCount]) {
  double sum = coefficients[kCount - 1];
  for (int i = kCount - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

// (e^r - 1 - r - r^2 / 2) / r^3 for |r| <= log(2) / 2, the series of Taylor.
double ExpTail(double r) {
  return Polynomial(r, {1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
                        1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800.0});
}

// e^r for |r| <= log(2) / 2, to about 2^-59 of itself.
Double2 ExpNear(Double2 r) {
  const double x = r.high;
  const Double2 square = Product(x, 0.5 * x), linear = Sum(1, x), sum = Sum(linear.high, square.high);
  const double cubic = x * x * x * ExpTail(x);
  return Sum(sum.high, sum.low + linear.low + (square.low + (cubic + (r.low + r.low * x))));
}

constexpr double kLog2OfE = 0x1.71547652b82fep+0;
// log(2) as a number of 32 bits, whose products with exponents are exact, and the rest.
constexpr double kLog2High = 0x1.62e42feep-1, kLog2Low = 0x1.a39ef35793c76p-33;

struct Power {
  Double2 factor;
  int exponent;
};
// e^x as factor * 2^exponent, for |x| < 800.
Power ExpOf(Double2 x) {
  const double exponent = Rounded(x.high * kLog2OfE);
  const Double2 rest = Sum(x.high - exponent * kLog2High, -exponent * kLog2Low);
  const Double2 r = Sum(rest.high, rest.low + x.low);
  return {ExpNear(r), static_cast<int>(exponent)};
}
constexpr double kMostExp = 709.8, kLeastExp = -745.2;  // beyond, e^x is infinite and 0

// The logarithm of a positive normal or subnormal number, to about 2^-58 of itself.
Double2 LogOf(double x) {
  int exponent = 0;
  if (x < std::numeric_limits<double>::min()) x *= 0x1p54, exponent = -54;
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m > std::numbers::sqrt2) m *= 0.5, ++exponent;
  // log m = 2 artanh s = 2 s + 2 s^3 / 3 + .. with s = f / (2 + f).
  const double f = m - 1;
  const Double2 divisor = Sum(2, f);
  const double s = f / divisor.high;
  const Double2 back = Product(s, divisor.high);
  const double s_low = ((f - back.high) - back.low - s * divisor.low) / divisor.high, z = s * s;
  const double tail =
      s * z *
      Polynomial(z, {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23});
  const double k = exponent;
  const Double2 whole = Sum(k * kLog2High, 2 * s), sum = Sum(whole.high, tail);
  return Sum(sum.high, sum.low + whole.low + (2 * s_low + k * kLog2Low));
}

// Words of 64 bits of 2 / pi behind the point.
constexpr uint64_t kTwoOverPi[] = {0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
                                   0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
                                   0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
                                   0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
                                   0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB};

// 64 bits of 2 / pi from a bit on.
uint64_t BitsOfTwoOverPi(int first) {
  const int word = first / 64, shift = first % 64;
  return shift == 0 ? kTwoOverPi[word] : kTwoOverPi[word] << shift | kTwoOverPi[word + 1] >> (64 - shift);
}

struct Angle {
  Double2 rest;  // at most pi / 4
  int quarters;  // 0 .. 3
};

// x = rest + quarters * pi / 2 (and whole turns) for pi / 4 <= x < 2^20, by pi / 2 in pieces whose products with the number of
// quarters are exact (Cody and Waite 1980, "Software Manual for the Elementary Functions").
Angle ReducedByPieces(double x) {
  constexpr double kFirst = 0x1.921fb544p+0, kSecond = 0x1.0b4611a6p-34, kThird = 0x1.3198a2e037073p-69;
  const double quarters = Rounded(x * (2 * std::numbers::inv_pi));
  const Double2 rest = Sum(x - quarters * kFirst, -quarters * kSecond);
  return {Sum(rest.high, rest.low - quarters * kThird), static_cast<int>(quarters) & 3};
}

// The same for 2^20 <= x, with whole numbers (Payne and Hanek 1983, "Radian reduction for trigonometric functions"): of x = m
// 2^e the product of m with the 192 bits of 2 / pi that matter.
Angle Reduced(double x) {
  const auto bits = std::bit_cast<uint64_t>(x);
  const int e = static_cast<int>(bits >> 52) - 1075;
  const uint64_t m = (bits & 0x000FFFFFFFFFFFFF) | uint64_t{1} << 52;
  const int first = e > 2 ? e - 2 : 0;
  uint64_t words[4] = {};  // the highest first
  for (int i = 2; i >= 0; --i) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(m) * BitsOfTwoOverPi(first + 64 * i) + words[i + 1];
    words[i + 1] = static_cast<uint64_t>(product);
    words[i] = static_cast<uint64_t>(product >> 64);
  }
  // So far 64 - 2 more bits than the quarters stand before the point, less those by which x is smaller.
  const int shift = 62 + (e > 2 ? 2 : e);
  if (shift == 64) {
    for (int i = 0; i < 4; ++i) words[i] = i < 3 ? words[i + 1] : 0;
  } else {
    for (int i = 0; i < 4; ++i) words[i] = words[i] << shift | (i < 3 ? words[i + 1] >> (64 - shift) : 0);
  }
  int quarters = static_cast<int>(words[0] >> 62);
  for (int i = 0; i < 4; ++i) words[i] = words[i] << 2 | (i < 3 ? words[i + 1] >> 62 : 0);
  const bool above = words[0] >> 63 != 0;
  if (above) {
    ++quarters;
    for (uint64_t& word : words) word = ~word;  // 1 - it, but for a unit of its last place, far below what counts
  }
  // The first 106 bits of the fraction from its highest on.
  int zeros = 0;
  while (words[0] == 0 && zeros < 128) {
    for (int i = 0; i < 4; ++i) words[i] = i < 3 ? words[i + 1] : 0;
    zeros += 64;
  }
  const int more = std::countl_zero(words[0]);
  const uint64_t high = more == 0 ? words[0] : words[0] << more | words[1] >> (64 - more);
  const uint64_t low = more == 0 ? words[1] : words[1] << more | words[2] >> (64 - more);
  const double sign = above ? -1 : 1, unit = PowerOf2(-64 - zeros - more);
  const uint64_t first_bits = high >> 11 << 11, next_bits = (high << 53 | low >> 11) >> 11;
  const Double2 fraction{sign * static_cast<double>(first_bits) * unit,
                         sign * static_cast<double>(next_bits) * unit * PowerOf2(-42)};
  constexpr double kHalfPi = 0x1.921fb54442d18p+0, kHalfPiLow = 0x1.1a62633145c07p-54;
  const Double2 product = Product(fraction.high, kHalfPi);
  return {Sum(product.high, product.low + (fraction.high * kHalfPiLow + fraction.low * kHalfPi)), quarters & 3};
}

double SinNear(Double2 r) {
  const double x = r.high, z = x * x;
  const double tail = Polynomial(z, {-1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800.0,
                                     -1.0 / 1307674368000.0, 1.0 / 355687428096000.0});
  return x + (x * z * tail + r.low * (1 - 0.5 * z));
}
double CosNear(Double2 r) {
  const double x = r.high, z = x * x, half = 0.5 * z, near = 1 - half;
  const double tail = Polynomial(
      z, {1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200.0, 1.0 / 20922789888000.0});
  return near + (((1 - near) - half) + (z * z * tail - x * r.low));
}

constexpr double kQuarterPi = 0x1.921fb54442d18p-1;

// sin(x + more quarters of a turn)
double Turned(double x, int more) {
  if (!std::isfinite(x)) return kNan;
  const double size = std::abs(x);
  const Angle angle = size <= kQuarterPi ? Angle{{size, 0}, 0} : size < 0x1p20 ? ReducedByPieces(size) : Reduced(size);
  // sin is odd, cos is even.
  const bool negative = x < 0 && more == 0;
  const int quarters = angle.quarters + more;
  const double y = quarters % 2 == 0 ? SinNear(angle.rest) : CosNear(angle.rest);
  return ((quarters & 2) != 0) != negative ? -y : y;
}

// 1 where y is an odd number, 0 where it is another whole one, -1 where it has a fraction.
int Oddness(double y) {
  const double size = std::abs(y);
  if (size >= 0x1p53) return 0;
  if (std::floor(size) != size) return -1;
  return std::floor(size / 2) * 2 != size ? 1 : 0;
}

// Of x > 0, finite, and y finite.
double PowOf(double x, double y) {
  if (x == 1 || y == 0) return 1;
  const bool grows = (x > 1) == (y > 0);
  if (std::abs(y) >= 0x1p64) return grows ? kInfinity : 0;
  const Double2 log = LogOf(x), product = Product(y, log.high);
  const double low = product.low + y * log.low;
  if (!(product.high < kMostExp)) return kInfinity;
  if (!(product.high > kLeastExp)) return 0;
  // Products below the normal numbers are not exact, and 1 + them is 1.
  const Power power = ExpOf(std::abs(product.high) < 0x1p-60 ? Double2{product.high, 0} : Double2{product.high, low});
  return Scaled(power.factor.high, power.exponent);
}

}  // namespace

double Exp(double x) {
  if (std::isnan(x)) return x;
  if (x > kMostExp) return kInfinity;
  if (x < kLeastExp) return 0;
  const Power power = ExpOf({x, 0});
  return Scaled(power.factor.high, power.exponent);
}

double Exp2(double x) {
  if (std::isnan(x)) return x;
  if (x >= 1024) return kInfinity;
  if (x < -1080) return 0;
  const double exponent = Rounded(x), rest = x - exponent;
  constexpr double kLow = 0x1.abc9e3b39803fp-56;  // log(2) less the nearest double
  const Double2 product = Product(rest, std::numbers::ln2);
  const bool tiny = std::abs(rest) < 0x1p-60;
  const Double2 power = ExpNear(tiny ? Double2{product.high, 0} : Double2{product.high, product.low + rest * kLow});
  return Scaled(power.high, static_cast<int>(exponent));
}

double Expm1(double x) {
  if (std::isnan(x) || x == 0) return x;
  if (x > kMostExp) return kInfinity;
  if (x < -60) return -1;
  if (std::abs(x) < 0.34) return std::abs(x) < 0x1p-60 ? x : x + (0.5 * x * x + x * x * x * ExpTail(x));
  const Power power = ExpOf({x, 0});
  if (power.exponent > 1020) return Scaled(power.factor.high, power.exponent);
  const double scale = PowerOf2(power.exponent);
  const Double2 sum = Sum(power.factor.high * scale, -1);
  return sum.high + (sum.low + power.factor.low * scale);
}

double Log(double x) {
  if (std::isnan(x) || x == kInfinity) return x;
  if (x < 0) return kNan;
  return x == 0 ? -kInfinity : LogOf(x).high;
}

double Log1p(double x) {
  if (std::isnan(x) || x == kInfinity || std::abs(x) < 0x1p-60) return x;
  if (x < -1) return kNan;
  if (x == -1) return -kInfinity;
  // log(u + low) = log u + low / u
  const Double2 u = Sum(1, x);
  const Double2 log = LogOf(u.high);
  return log.high + (log.low + u.low / u.high);
}

double Pow(double x, double y) {
  if (x == 1 || y == 0) return 1;
  if (std::isnan(x) || std::isnan(y)) return kNan;
  const double size = std::abs(x);
  if (std::isinf(y)) {
    if (size == 1) return 1;
    return (size > 1) == (y > 0) ? kInfinity : 0;
  }
  const int odd = Oddness(y);
  const bool negative = std::signbit(x) && odd == 1;
  if (size == 0 || std::isinf(size)) {
    const double power = (size == 0) == (y > 0) ? 0 : kInfinity;
    return negative ? -power : power;
  }
  if (x < 0 && odd < 0) return kNan;
  return negative ? -PowOf(size, y) : PowOf(size, y);
}

double Sin(double x) { return x == 0 ? x : Turned(x, 0); }
double Cos(double x) { return Turned(x, 1); }

double Tanh(double x) {
  const double size = std::abs(x);
  if (std::isnan(x) || size < 0x1p-28) return x;
  if (size > 22) return std::copysign(1, x);
  const double t = Expm1(2 * size);
  return std::copysign(size < 0.55 ? t / (t + 2) : 1 - 2 / (t + 2), x);
}

double Erf(double x) {
  const double size = std::abs(x);
  if (std::isnan(x)) return x;
  if (size >= 6) return std::copysign(1, x);
  if (size < 1) {
    // The series of Taylor: (-1)^n z^n / (n! (2 n + 1)).
    const double z = x * x;
    const double tail =
        Polynomial(z, {-1.0 / 3, 1.0 / 10, -1.0 / 42, 1.0 / 216, -1.0 / 1320, 1.0 / 9360, -1.0 / 75600, 1.0 / 685440,
                       -1.0 / 6894720, 1.0 / 76204800, -1.0 / 918086400, 1.0 / 11975040000.0, -1.0 / 168129561600.0,
                       1.0 / 2528170444800.0, -1.0 / 40537905408000.0, 1.0 / 690452066304000.0, -1.0 / 12449059983360000.0});
    constexpr double kScale = 0x1.20dd750429b6dp+0, kScaleLow = 0x1.1ae3a914fed8p-56;  // 2 / sqrt(pi)
    return size < 0x1p-500 ? kScale * x : kScale * x + (kScaleLow * x + kScale * (x * z * tail));
  }
  // e^(x^2) erfc(x) from 1 to 6 as a sum of Chebyshev's polynomials of t, which goes with 1 / (x + 2); summed as Clenshaw does.
  constexpr double kChebyshev[] = {0.24078150322816145472,     0.16603573437134461385,     0.01937548512710410963,
                                   0.0013725838866457217045,   0.000023301617872657464271, -4.8424394560153620961e-6,
                                   -2.1925049177302585214e-7,  2.8603646284729238296e-8,   1.2581149611360461066e-9,
                                   -2.4685801467325005437e-10, -2.4941448378884750046e-12, 2.3295004504759955509e-12,
                                   -9.6802017756041023512e-14, -1.7796924050450159347e-14, 2.2446258610059347217e-15,
                                   2.9106217488718164982e-17,  -2.844418377130669822e-17};
  const double t = (48 / (size + 2) - 11) / 5;
  double next = 0, after = 0;
  for (int i = static_cast<int>(std::size(kChebyshev)) - 1; i > 0; --i) {
    const double sum = kChebyshev[i] + (2 * t * next - after);
    after = next, next = sum;
  }
  const double erfcx = kChebyshev[0] + (t * next - after);
  return std::copysign(1 - Exp(-size * size) * erfcx, x);
}

float Exp(float x) {
  if (!(x > -104.0f)) return std::isnan(x) ? x : 0.0f;
  if (x > 89.0f) return std::numeric_limits<float>::infinity();
  const double bits = static_cast<double>(x) * kLog2OfE, exponent = Rounded(bits);
  const double r = (bits - exponent) * std::numbers::ln2;
  const double power =
      Polynomial(r, {1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880});
  return static_cast<float>(power * PowerOf2(static_cast<int>(exponent)));
}

// Both are x P(x^2) / Q(x^2) up to where they round to 1; P and Q minimise the largest relative error there, 3.7e-11
// and 9.4e-10, by reweighted least squares.
float Tanh(float x) {
  const double size = std::abs(static_cast<double>(x)), z = size * size;
  if (!(size < 9.02)) return std::isnan(x) ? x : std::copysign(1.0f, x);
  const double numerator = Polynomial(z, {0.999999999963162, 0.14098856657939066, 0.0044254781503279255, 4.226155943400696e-05,
                                          1.1110569686425123e-07, 3.67000620503694e-11});
  const double ratio = size * numerator /
                       Polynomial(z, {1.0, 0.4743218995075785, 0.029199445390696428, 0.0005007434650250029,
                                      2.602719872843886e-06, 2.9485571372150145e-09});
  return std::copysign(static_cast<float>(std::min(ratio, 1.0)), x);
}

float Erf(float x) {
  const double size = std::abs(static_cast<double>(x)), z = size * size;
  if (!(size < 4)) return std::isnan(x) ? x : std::copysign(1.0f, x);
  const double numerator = Polynomial(z, {1.1283791681391264, 0.16689924240245113, 0.050937670700241855, 0.002955806149462472,
                                          0.0003057398602090795, -2.8989499903446904e-07, -4.484680765381743e-08});
  const double ratio = size * numerator /
                       Polynomial(z, {1.0, 0.48124397450881784, 0.10555672811810422, 0.01349093350145568, 0.0010397993294548463,
                                      4.099432863071373e-05, -6.202298218395843e-07});
  return std::copysign(static_cast<float>(std::min(ratio, 1.0)), x);
}

}  // namespace heed::portable
