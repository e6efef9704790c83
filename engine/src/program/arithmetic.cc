#include "heed/portable_math.h"
#include "program/operation.h"

namespace heed::program {

namespace {

// To a whole number or a narrower type.
double Rounded(Operation operation, double x) {
  if (operation == Operation::kFloor) return std::floor(x);
  if (operation == Operation::kTruncate) return std::trunc(x);
  return operation == Operation::kToBFloat16 ? RoundedTo<BFloat16>(x) : RoundedTo<Float16>(x);
}

double BitsOf(Operation operation, double a, double b) {
  if (operation == Operation::kBitAnd) return BitAndOf(a, b);
  return operation == Operation::kBitOr ? BitOrOf(a, b) : BitXorOf(a, b);
}

}  // namespace

double Compute(Operation operation, const double* x) {
  using enum Operation;
  switch (operation) {
    case kAdd:
      return x[0] + x[1];
    case kSubtract:
      return x[0] - x[1];
    case kMultiply:
      return x[0] * x[1];
    case kDivide:
      return x[0] / x[1];
    case kFloorDivide:
      return FloorQuotient(x[0], x[1]);
    case kRemainder:
      return FloorRemainder(x[0], x[1]);
    case kPower:
      return portable::Pow(x[0], x[1]);
    case kMinimum:
      return Minimum(x[0], x[1]);
    case kMaximum:
      return Maximum(x[0], x[1]);
    case kNegate:
      return -x[0];
    case kAbsolute:
      return std::abs(x[0]);
    case kFloor:
    case kTruncate:
    case kToBFloat16:
    case kToFloat16:
      return Rounded(operation, x[0]);
    case kExp:
      return portable::Exp(x[0]);
    case kExp2:
      return portable::Exp2(x[0]);
    case kLog:
      return portable::Log(x[0]);
    case kLog1p:
      return portable::Log1p(x[0]);
    case kSqrt:
      return std::sqrt(x[0]);
    case kReciprocal:
      return 1 / x[0];
    case kTanh:
      return portable::Tanh(x[0]);
    case kSigmoid:
      return Sigmoid(x[0]);
    case kErf:
      return portable::Erf(x[0]);
    case kSin:
      return portable::Sin(x[0]);
    case kCos:
      return portable::Cos(x[0]);
    case kLess:
      return x[0] < x[1];
    case kLessEqual:
      return x[0] <= x[1];
    case kEqual:
      return x[0] == x[1];
    case kNotEqual:
      return x[0] != x[1];
    case kAnd:
      return x[0] != 0 && x[1] != 0;
    case kOr:
      return x[0] != 0 || x[1] != 0;
    case kNot:
      return x[0] == 0;
    case kBitAnd:
    case kBitOr:
    case kBitXor:
      return BitsOf(operation, x[0], x[1]);
    case kSelect:
      return x[0] != 0 ? x[1] : x[2];
    case kScaled:
      return x[0] == 0 ? 0 : x[0] * x[1];
    case kBelow:
      return x[0] < x[1] ? 1 : x[0] == x[1] ? 0.5 : 0;
    default:
      return std::nan("");
  }
}

}  // namespace heed::program
