// The operations of programs: names, operands and the kinds of results.
#ifndef HEED_PROGRAM_OPERATION_H_
#define HEED_PROGRAM_OPERATION_H_

#include <cstdint>
#include <string_view>

#include "heed/score_program.h"

namespace heed::program {

enum class Operation : uint8_t {
  // What a pair is told apart by.
  kScore,
  kBatch,
  kHead,
  kQuery,
  kKey,
  kQueryPosition,
  kKeyPosition,
  kConstant,
  kRead,
  kDot,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kPower,
  kMinimum,
  kMaximum,
  kNegate,
  kAbsolute,
  kFloor,
  kTruncate,
  // Rounded to nearest, ties to even.
  kToBFloat16,
  kToFloat16,
  kExp,
  kExp2,
  kLog,
  kLog1p,
  kSqrt,
  kReciprocal,
  kTanh,
  kSigmoid,
  kErf,
  kSin,
  kCos,
  kLess,
  kLessEqual,
  kEqual,
  kNotEqual,
  kAnd,
  kOr,
  kNot,
  // Bit by bit, of whole numbers.
  kBitAnd,
  kBitOr,
  kBitXor,
  kSelect,
  // Further ones are the engine's own, and not in texts.
  // Of one call: positions of token 0 of each side, where positions count up from it.
  kQueryOrigin,
  kKeyOrigin,
  // The score in powers of two, as the kernels have it.
  kScoreBits,
  // Of gradients: that of the result, and what a pair has kept since its result was computed.
  kGradient,
  kKept,
  // a * b, and 0 where a is 0 whatever b is: what gradients are multiplied with.
  kScaled,
  // 1 where a < b, 1/2 where they are equal, else 0: whose the gradient of the smaller of two is.
  kBelow,
  // Of steps: a * b + c, a * b - c, c - a * b, and kScaled of a and b plus c.
  kMultiplyAdd,
  kMultiplySubtract,
  kSubtractProduct,
  kScaledAdd,
};
constexpr bool InTexts(Operation operation) { return operation <= Operation::kSelect; }
constexpr int kOperations = static_cast<int>(Operation::kScaledAdd) + 1;

// What kinds operands have and what becomes of them.
enum class Typing : uint8_t {
  kLeaf,
  kArithmetic,  // numbers or booleans; whole unless an operand is real
  kReal,        // numbers or booleans; real
  kWhole,       // numbers or booleans; whole
  kComparison,  // numbers or booleans; a boolean
  kLogic,       // booleans; a boolean
  kSelection,   // a boolean and two of any kind; the wider kind of the two
};

struct OperationFacts {
  std::string_view name;  // in texts
  int operands;           // -1: as many as there are
  Typing typing;
  Kind kind;  // of leaves
};

const OperationFacts& FactsOf(Operation operation);

}  // namespace heed::program

#endif  // HEED_PROGRAM_OPERATION_H_
