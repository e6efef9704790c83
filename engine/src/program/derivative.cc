#include "program/code.h"

#include <cstddef>
#include <numbers>

namespace heed::program {
namespace {

using enum Operation;

class ReverseMode {
 public:
  ReverseMode(CodeBuilder& builder, const std::vector<int>& targets) : builder_(builder) {
    const auto size = static_cast<std::size_t>(builder.size());
    gradients_.assign(size, -1);
    target_.assign(size, 0);
    for (int target : targets) target_[static_cast<std::size_t>(target)] = 1;
    active_ = target_;
    for (std::size_t index = 0; index < size; ++index)
      for (int operand : builder[static_cast<int>(index)].operands)
        if (active_[static_cast<std::size_t>(operand)] && builder[static_cast<int>(index)].kind == Kind::kReal)
          active_[index] = 1;
  }

  void Run(int result, int gradient) {
    Add(result, gradient);
    for (int index = result; index >= 0; --index) {
      const auto at = static_cast<std::size_t>(index);
      if (gradients_[at] >= 0 && !target_[at]) PassOn(index, gradients_[at]);
    }
  }
  int gradient(int instruction) const { return gradients_[static_cast<std::size_t>(instruction)]; }

 private:
  void Add(int instruction, int gradient) {
    if (!active_[static_cast<std::size_t>(instruction)]) return;
    int& sum = gradients_[static_cast<std::size_t>(instruction)];
    sum = sum < 0 ? gradient : builder_.Apply(kAdd, {sum, gradient});
  }

  int Number(double number) { return builder_.Constant(number, Kind::kReal); }
  // Constant factors come last, where they meet and often cancel.
  int Scaled(int gradient, int factor) {
    const Instruction of = builder_[gradient];
    if (of.operation != kScaled || builder_[of.operands[1]].operation != kConstant)
      return builder_.Apply(kScaled, {gradient, factor});
    if (builder_[factor].operation == kConstant)
      return builder_.Apply(kScaled, {of.operands[0], Times(of.operands[1], factor)});
    return builder_.Apply(kScaled, {builder_.Apply(kScaled, {of.operands[0], factor}), of.operands[1]});
  }
  int Negated(int a) { return builder_.Apply(kNegate, {a}); }
  int Times(int a, int b) { return builder_.Apply(kMultiply, {a, b}); }
  int Inverse(int a) { return builder_.Apply(kReciprocal, {a}); }
  int Choice(int condition, int a, int b) { return builder_.Apply(kSelect, {condition, a, b}); }
  int Below(int a, int b) { return builder_.Apply(kBelow, {a, b}); }
  int Less(int a, int b) { return builder_.Apply(kLess, {a, b}); }

  // What the operands of an instruction get of its gradient.
  void PassOn(int y, int g) {
    const Instruction instruction = builder_[y];
    const std::vector<int>& x = instruction.operands;
    switch (instruction.operation) {
      case kAdd:
        Add(x[0], g), Add(x[1], g);
        return;
      case kSubtract:
        Add(x[0], g), Add(x[1], Negated(g));
        return;
      case kMultiply:
      case kScaled:
        Add(x[0], Scaled(g, x[1]));
        Add(x[1], Scaled(g, x[0]));
        return;
      case kDivide: {
        const int of_dividend = Scaled(g, Inverse(x[1]));
        Add(x[0], of_dividend);
        Add(x[1], Negated(Scaled(of_dividend, y)));
        return;
      }
      case kRemainder:
        Add(x[0], g);
        Add(x[1], Negated(Scaled(g, builder_.Apply(kFloorDivide, {x[0], x[1]}))));
        return;
      case kPower:
        PassOnPower(x[0], x[1], y, g);
        return;
      case kMinimum:
        Add(x[0], Scaled(g, Below(x[0], x[1])));
        Add(x[1], Scaled(g, Below(x[1], x[0])));
        return;
      case kMaximum:
        Add(x[0], Scaled(g, Below(x[1], x[0])));
        Add(x[1], Scaled(g, Below(x[0], x[1])));
        return;
      case kSelect:
        Add(x[1], Choice(x[0], g, Number(0)));
        Add(x[2], Choice(x[0], Number(0), g));
        return;
      default:
        if (const int slope = Slope(instruction.operation, x.empty() ? -1 : x[0], y); slope >= 0) Add(x[0], Scaled(g, slope));
        return;
    }
  }

  void PassOnPower(int base, int exponent, int y, int g) {
    const int lower = builder_.Apply(kPower, {base, builder_.Apply(kSubtract, {exponent, Number(1)})});
    const int constant = builder_.Apply(kEqual, {exponent, Number(0)});
    Add(base, Scaled(g, Choice(constant, Number(0), Times(exponent, lower))));
    const int flat =
        builder_.Apply(kAnd, {builder_.Apply(kEqual, {base, Number(0)}), builder_.Apply(kLessEqual, {Number(0), exponent})});
    Add(exponent, Scaled(g, Choice(flat, Number(0), Times(y, builder_.Apply(kLog, {base})))));
  }

  // The derivative of a function of one number, from that number and its result; -1 where it is 0.
  int Slope(Operation operation, int a, int y) {
    switch (operation) {
      case kToBFloat16:
      case kToFloat16:
        return Number(1);
      case kNegate:
        return Number(-1);
      case kAbsolute:
        return Choice(Less(Number(0), a), Number(1), Choice(Less(a, Number(0)), Number(-1), Number(0)));
      case kExp:
        return y;
      case kExp2:
        return Times(y, Number(std::numbers::ln2));
      case kLog:
        return Inverse(a);
      case kLog1p:
        return Inverse(builder_.Apply(kAdd, {Number(1), a}));
      case kSqrt:
        return builder_.Apply(kDivide, {Number(0.5), y});
      case kReciprocal:
        return Negated(Times(y, y));
      case kTanh:
        return builder_.Apply(kSubtract, {Number(1), Times(y, y)});
      case kSigmoid:
        return Times(y, builder_.Apply(kSubtract, {Number(1), y}));
      case kErf: {
        const int bell = builder_.Apply(kExp, {Negated(Times(a, a))});
        return Times(bell, Number(2 * std::numbers::inv_sqrtpi));
      }
      case kSin:
        return builder_.Apply(kCos, {a});
      case kCos:
        return Negated(builder_.Apply(kSin, {a}));
      default:
        return -1;
    }
  }

  CodeBuilder& builder_;
  std::vector<int> gradients_;
  std::vector<char> target_, active_;
};

}  // namespace

std::vector<int> Differentiate(CodeBuilder& builder, int result, int gradient, const std::vector<int>& targets) {
  ReverseMode reverse(builder, targets);
  reverse.Run(result, gradient);
  std::vector<int> gradients;
  gradients.reserve(targets.size());
  for (int target : targets) gradients.push_back(reverse.gradient(target));
  return gradients;
}

}  // namespace heed::program
