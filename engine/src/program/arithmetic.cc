#include "program/arithmetic.h"

namespace heed::program {

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
      return std::pow(x[0], x[1]);
    case kMinimum:
      return Minimum(x[0], x[1]);
    case kMaximum:
      return Maximum(x[0], x[1]);
    case kNegate:
      return -x[0];
    case kAbsolute:
      return std::abs(x[0]);
    case kFloor:
      return std::floor(x[0]);
    case kTruncate:
      return std::trunc(x[0]);
    case kToBFloat16:
      return RoundedTo<BFloat16>(x[0]);
    case kToFloat16:
      return RoundedTo<Float16>(x[0]);
    case kExp:
      return std::exp(x[0]);
    case kExp2:
      return std::exp2(x[0]);
    case kLog:
      return std::log(x[0]);
    case kLog1p:
      return std::log1p(x[0]);
    case kSqrt:
      return std::sqrt(x[0]);
    case kReciprocal:
      return 1 / x[0];
    case kTanh:
      return std::tanh(x[0]);
    case kSigmoid:
      return Sigmoid(x[0]);
    case kErf:
      return std::erf(x[0]);
    case kSin:
      return std::sin(x[0]);
    case kCos:
      return std::cos(x[0]);
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
      return BitAndOf(x[0], x[1]);
    case kBitOr:
      return BitOrOf(x[0], x[1]);
    case kBitXor:
      return BitXorOf(x[0], x[1]);
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
