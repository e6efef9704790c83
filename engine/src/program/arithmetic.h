// Computes operations in double precision, for single numbers; booleans are 0 and 1.
#ifndef HEED_PROGRAM_ARITHMETIC_H_
#define HEED_PROGRAM_ARITHMETIC_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "heed/element.h"
#include "heed/portable_math.h"
#include "program/operation.h"

namespace heed::program {

// The quotient rounded down; exact where both are whole and exact. Where an operand is infinite or b is 0, what PyTorch has.
inline double FloorQuotient(double a, double b) {
  if (b == 0) return a / b;
  if (std::isinf(a)) return std::nan("");
  if (std::isinf(b)) return (a < 0 && b > 0) || (a > 0 && b < 0) ? -1 : a * 0;
  const double quotient = std::floor(a / b), rest = std::fma(-quotient, b, a);
  if (rest == 0) return quotient;
  if ((rest < 0) != (b < 0)) return quotient - 1;
  // A rest may be rounded to b where the quotient is -1, and is less.
  return quotient != -1 && std::abs(rest) >= std::abs(b) ? quotient + 1 : quotient;
}

// What is left of a behind the quotient rounded down: it has the sign of b.
inline double FloorRemainder(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

inline double Minimum(double a, double b) { return std::isnan(a) || a < b ? a : b; }
inline double Maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }
inline double Sigmoid(double a) { return a >= 0 ? 1 / (1 + portable::Exp(-a)) : portable::Exp(a) / (1 + portable::Exp(a)); }

// Bits as two's complement has them; NaN for what is no whole number of an int64.
template <class F>
double BitByBit(double a, double b, const F& f) {
  constexpr double kLimit = 0x1p62;
  if (!(std::abs(a) <= kLimit && std::abs(b) <= kLimit)) return std::nan("");
  return static_cast<double>(f(static_cast<int64_t>(a), static_cast<int64_t>(b)));
}
inline double BitAndOf(double a, double b) {
  return BitByBit(a, b, [](int64_t x, int64_t y) { return x & y; });
}
inline double BitOrOf(double a, double b) {
  return BitByBit(a, b, [](int64_t x, int64_t y) { return x | y; });
}
inline double BitXorOf(double a, double b) {
  return BitByBit(a, b, [](int64_t x, int64_t y) { return x ^ y; });
}

// The nearest of a 16-bit type.
template <class T>
double RoundedTo(double number) {
  if constexpr (std::is_same_v<T, BFloat16>) return ToFloat(ToBFloat16(static_cast<float>(number)));
  return ToFloat(ToFloat16(static_cast<float>(number)));
}

// A number as T. What is finite stays finite: infinite ones mean something else.
template <class T>
T Narrowed(double number) {
  constexpr double kMost = std::numeric_limits<T>::max();
  return static_cast<T>(std::isfinite(number) ? std::clamp(number, -kMost, kMost) : number);
}

// An operation without leaves.
double Compute(Operation operation, const double* operands);

}  // namespace heed::program

#endif  // HEED_PROGRAM_ARITHMETIC_H_
