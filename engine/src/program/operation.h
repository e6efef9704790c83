// The operations of programs: names, operands, the kinds of results, and their arithmetic in double precision.
#ifndef HEED_PROGRAM_OPERATION_H_
#define HEED_PROGRAM_OPERATION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "heed/element.h"
#include "heed/portable_math.h"
#include "heed/score_program.h"

namespace heed::program {

// X(name, name in texts, operands, typing) of each; operands: -1 for as many as there are.
#define HEED_PROGRAM_OPERATIONS(X)                                                                    \
  /* What a pair is told apart by. */                                                                 \
  X(kScore, "score", 0, kReal)                                                                        \
  X(kBatch, "batch", 0, kWhole)                                                                       \
  X(kHead, "head", 0, kWhole)                                                                         \
  X(kQuery, "query", 0, kWhole)                                                                       \
  X(kKey, "key", 0, kWhole)                                                                           \
  X(kQueryPosition, "query_position", 0, kReal)                                                       \
  X(kKeyPosition, "key_position", 0, kReal)                                                           \
  X(kConstant, "constant", 0, kReal)                                                                  \
  X(kRead, "read", -1, kReal)                                                                         \
  X(kDot, "dot", -1, kReal)                                                                           \
  X(kAdd, "add", 2, kArithmetic)                                                                      \
  X(kSubtract, "subtract", 2, kArithmetic)                                                            \
  X(kMultiply, "multiply", 2, kArithmetic)                                                            \
  X(kDivide, "divide", 2, kReal)                                                                      \
  X(kFloorDivide, "floor_divide", 2, kArithmetic)                                                     \
  X(kRemainder, "remainder", 2, kArithmetic)                                                          \
  X(kPower, "power", 2, kReal)                                                                        \
  X(kMinimum, "minimum", 2, kArithmetic)                                                              \
  X(kMaximum, "maximum", 2, kArithmetic)                                                              \
  X(kNegate, "negate", 1, kArithmetic)                                                                \
  X(kAbsolute, "absolute", 1, kArithmetic)                                                            \
  X(kFloor, "floor", 1, kArithmetic)                                                                  \
  X(kTruncate, "truncate", 1, kWhole)                                                                 \
  /* Rounded to nearest, ties to even. */                                                             \
  X(kToBFloat16, "to_bfloat16", 1, kReal)                                                             \
  X(kToFloat16, "to_float16", 1, kReal)                                                               \
  X(kExp, "exp", 1, kReal)                                                                            \
  X(kExp2, "exp2", 1, kReal)                                                                          \
  X(kLog, "log", 1, kReal)                                                                            \
  X(kLog1p, "log1p", 1, kReal)                                                                        \
  X(kSqrt, "sqrt", 1, kReal)                                                                          \
  X(kReciprocal, "reciprocal", 1, kReal)                                                              \
  X(kTanh, "tanh", 1, kReal)                                                                          \
  X(kSigmoid, "sigmoid", 1, kReal)                                                                    \
  X(kErf, "erf", 1, kReal)                                                                            \
  X(kSin, "sin", 1, kReal)                                                                            \
  X(kCos, "cos", 1, kReal)                                                                            \
  X(kLess, "less", 2, kComparison)                                                                    \
  X(kLessEqual, "less_equal", 2, kComparison)                                                         \
  X(kEqual, "equal", 2, kComparison)                                                                  \
  X(kNotEqual, "not_equal", 2, kComparison)                                                           \
  X(kAnd, "and", 2, kLogic)                                                                           \
  X(kOr, "or", 2, kLogic)                                                                             \
  X(kNot, "not", 1, kLogic)                                                                           \
  /* Bit by bit, of whole numbers. */                                                                 \
  X(kBitAnd, "bit_and", 2, kWhole)                                                                    \
  X(kBitOr, "bit_or", 2, kWhole)                                                                      \
  X(kBitXor, "bit_xor", 2, kWhole)                                                                    \
  X(kSelect, "select", 3, kSelection)                                                                 \
  /* Further ones are the engine's own, and not in texts. */                                          \
  /* Of one call: positions of token 0 of each side, where positions count up from it. */             \
  X(kQueryOrigin, "query_origin", 0, kWhole)                                                          \
  X(kKeyOrigin, "key_origin", 0, kWhole)                                                              \
  /* The score in powers of two, as the kernels have it. */                                           \
  X(kScoreBits, "score_bits", 0, kReal)                                                               \
  /* Of gradients: that of the result, and what a pair has kept since its result was computed. */     \
  X(kGradient, "gradient", 0, kReal)                                                                  \
  X(kKept, "kept", 0, kReal)                                                                          \
  /* a * b, and 0 where a is 0 whatever b is: what gradients are multiplied with. */                  \
  X(kScaled, "scaled", 2, kReal)                                                                      \
  /* 1 where a < b, 1/2 where they are equal, else 0: whose the gradient of the smaller of two is. */ \
  X(kBelow, "below", 2, kReal)                                                                        \
  /* Of steps: a * b + c, a * b - c, c - a * b, and kScaled of a and b plus c. */                     \
  X(kMultiplyAdd, "multiply_add", 3, kReal)                                                           \
  X(kMultiplySubtract, "multiply_subtract", 3, kReal)                                                 \
  X(kSubtractProduct, "subtract_product", 3, kReal)                                                   \
  X(kScaledAdd, "scaled_add", 3, kReal)

// NOLINTBEGIN(bugprone-macro-parentheses): names
enum class Operation : uint8_t {
#define HEED_PROGRAM_NAME(name, ...) name,
  HEED_PROGRAM_OPERATIONS(HEED_PROGRAM_NAME)
#undef HEED_PROGRAM_NAME
};
constexpr bool InTexts(Operation operation) { return operation <= Operation::kSelect; }

// What kinds operands have and what becomes of them.
enum class Typing : uint8_t {
  kArithmetic,  // numbers or booleans; whole unless an operand is real
  kReal,        // numbers or booleans; real
  kWhole,       // numbers or booleans; whole
  kComparison,  // numbers or booleans; a boolean
  kLogic,       // booleans; a boolean
  kSelection,   // a boolean and two of any kind; the wider kind of the two
};

struct OperationFacts {
  std::string_view name;  // in texts
  int operands;
  Typing typing;
};
inline constexpr OperationFacts kOperations[] = {
#define HEED_PROGRAM_FACTS(name, text, operands, typing) {text, operands, Typing::typing},
    HEED_PROGRAM_OPERATIONS(HEED_PROGRAM_FACTS)
#undef HEED_PROGRAM_FACTS
};
// NOLINTEND(bugprone-macro-parentheses)
constexpr const OperationFacts& FactsOf(Operation operation) { return kOperations[static_cast<int>(operation)]; }

// Operations in double precision, for single numbers; booleans are 0 and 1.

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

#endif  // HEED_PROGRAM_OPERATION_H_
