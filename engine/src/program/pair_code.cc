#include "program/pair_code.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "program/interval.h"

namespace heed::program {
namespace {

using enum Operation;

// Whole numbers up to here are exact in float.
constexpr double kExactInFloat = 0x1p24;

std::size_t At(int index) { return static_cast<std::size_t>(index); }

// Where what every pair has of its own stands, in narrow elements.
std::optional<Operand> PairLeaf(const Instruction& instruction) {
  using Place = Operand::Place;
  switch (instruction.operation) {
    case kScore:
      return Operand{Place::kScore, 0};
    case kScoreBits:
      return Operand{Place::kScoreBits, 0};
    case kGradient:
      return Operand{Place::kGradient, 0};
    case kKept:
      return Operand{Place::kKept, static_cast<int>(instruction.number)};
    default:
      return std::nullopt;
  }
}

// Which values need wide elements.
class Widths {
 public:
  Widths(const Code& code, const std::vector<Domain>& domains, const PairFacts& facts) : code_(code), facts_(facts) {
    for (int index = 0; index < code.size(); ++index) {
      bounds_.push_back(BoundOf(index));
      wide_.push_back(!facts.never_wide && Wide(index, domains[At(index)]));
    }
  }
  bool wide(int index) const { return wide_[At(index)]; }
  bool never() const { return facts_.never_wide; }

 private:
  Interval BoundOf(int index) const {
    const Instruction& instruction = code_[index];
    const auto up_to = [](double extent) { return Interval{0, std::max(0.0, extent - 1), false}; };
    switch (instruction.operation) {
      case kBatch:
        return up_to(facts_.batch);
      case kHead:
        return up_to(facts_.heads);
      case kQuery:
        return up_to(facts_.queries);
      case kKey:
        return up_to(facts_.keys);
      case kRead:
      case kDot:
        return instruction.kind == Kind::kTruth ? Interval{0, 1, false} : Interval::Anything();
      default:
        break;
    }
    std::array<Interval, 3> operands{};
    for (std::size_t x = 0; x < instruction.operands.size(); ++x) {
      operands[x] = bounds_[At(instruction.operands[x])];
      operands[x].nan = false;
    }
    return IntervalOf(instruction, operands.data(), {});
  }

  bool Wide(int index, const Domain& domain) const {
    const Instruction& instruction = code_[index];
    if (instruction.kind == Kind::kTruth || PairLeaf(instruction)) return false;
    if (instruction.kind == Kind::kWhole)
      return !(std::max(std::abs(bounds_.back().low), std::abs(bounds_.back().high)) <= kExactInFloat);
    if (facts_.wide_reals || instruction.operation == kQueryPosition || instruction.operation == kKeyPosition) return true;
    const auto any_wide = [&](bool whole = false) {
      return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                         [&](int operand) { return wide_[At(operand)] && (whole || code_[operand].kind == Kind::kReal); });
    };
    // A difference of positions is small where it matters; what only moves or chooses positions is as large as they are.
    switch (instruction.operation) {
      case kAdd:
      case kNegate:
      case kMinimum:
      case kMaximum:
      case kSelect:
      case kFloor:
        return any_wide();
      case kSubtract:
        return !domain.pair() && domain.axis != Axis::kOffset && any_wide();
      case kMultiply: {
        // A counted position is a whole number times 1.
        const bool same = std::ranges::any_of(instruction.operands, [&](int operand) {
          return code_[operand].operation == kConstant && code_[operand].number == 1;
        });
        return !domain.pair() && any_wide(same);
      }
      default:
        return false;
    }
  }

  const Code& code_;
  const PairFacts& facts_;
  std::vector<Interval> bounds_;
  std::vector<bool> wide_;
};

class PairCompiler {
 public:
  PairCompiler(const Code& code, const std::vector<Domain>& domains, const PairFacts& facts)
      : code_(code),
        domains_(domains),
        widths_(code, domains, facts),
        fuses_(!facts.wide_reals),
        values_(At(code.size())),
        fused_(At(code.size()), 0) {}

  PairCode Run() {
    std::vector<char> needed(At(code_.size()), 0);
    for (int result : code_.results()) needed[At(result)] = 1;
    for (int index = code_.size() - 1; index >= 0; --index)
      if (needed[At(index)] && domains_[At(index)].pair())
        for (int operand : code_[index].operands) needed[At(operand)] = 1;
    if (fuses_) Fuse(needed);
    for (int index = 0; index < code_.size(); ++index)
      if (needed[At(index)] && domains_[At(index)].pair()) Compute(index);
    for (int result : code_.results()) {
      const bool wide = widths_.wide(result) && code_[result].kind != Kind::kReal;
      const Element element = wide ? Element::kWide : Element::kNarrow;
      pairs_.results.push_back({OperandOf(result, element), element});
    }
    Allocate();
    for (const Step& step : pairs_.steps)
      pairs_.any_wide |= step.element == Element::kWide || step.kind == Step::Kind::kConvert;
    for (const PairCode::Result& result : pairs_.results) pairs_.any_wide |= result.element == Element::kWide;
    return std::move(pairs_);
  }

 private:
  // The registers that hold a value, by element; -1 where none does.
  struct Value {
    std::array<int, 2> registers{-1, -1};
  };

  // What an instruction is computed in.
  Element ElementOf(int index) const {
    const bool reading = code_[index].operation == kRead || code_[index].operation == kDot;
    // What is read is converted as it is read.
    bool wide = widths_.wide(index) && !reading;
    // Powers of whole numbers are whole ones, as far as double has them.
    if (code_[index].operation == kPower && !widths_.never())
      wide = std::ranges::all_of(code_[index].operands, [&](int operand) { return code_[operand].kind == Kind::kWhole; });
    for (int operand : code_[index].operands) wide = wide || widths_.wide(operand);
    return wide ? Element::kWide : Element::kNarrow;
  }

  bool Constant(int index) const { return code_[index].operation == kConstant && std::isfinite(code_[index].number); }
  // Gradients are finite where it matters: a finite factor needs no look at zeros.
  Operation Product(int index) const {
    const Instruction& instruction = code_[index];
    const bool scaled = instruction.operation == kScaled;
    return scaled && Constant(instruction.operands[1]) ? kMultiply : instruction.operation;
  }

  // Products that one sum alone needs are left to it.
  void Fuse(const std::vector<char>& needed) {
    std::vector<int> uses(At(code_.size()), 0);
    for (int result : code_.results()) uses[At(result)] += 2;
    const auto computed = [&](int index) { return needed[At(index)] && domains_[At(index)].pair(); };
    for (int index = 0; index < code_.size(); ++index)
      if (computed(index))
        for (int operand : code_[index].operands) ++uses[At(operand)];
    for (int index = 0; index < code_.size(); ++index) {
      const Instruction& sum = code_[index];
      if (!computed(index) || sum.kind != Kind::kReal || (sum.operation != kAdd && sum.operation != kSubtract)) continue;
      for (int operand : sum.operands) {
        const Operation product = Product(operand);
        const bool fits = product == kMultiply || (product == kScaled && sum.operation == kAdd);
        if (!fits || code_[operand].kind != Kind::kReal || !computed(operand) || uses[At(operand)] != 1) continue;
        if (ElementOf(operand) != ElementOf(index)) continue;
        fused_[At(operand)] = 1;
        break;
      }
    }
  }

  // The operation and the operands of an instruction, a product among them taken in.
  std::pair<Operation, std::vector<int>> StepOf(int index) const {
    const Instruction& instruction = code_[index];
    const std::vector<int>& x = instruction.operands;
    const bool sum = instruction.operation == kAdd || instruction.operation == kSubtract;
    if (!sum || !(fused_[At(x[0])] || fused_[At(x[1])])) return {Product(index), x};
    const bool first = fused_[At(x[0])] != 0;
    const int product = x[first ? 0 : 1], other = x[first ? 1 : 0];
    std::vector<int> operands = code_[product].operands;
    operands.push_back(other);
    if (instruction.operation == kSubtract) return {first ? kMultiplySubtract : kSubtractProduct, operands};
    return {Product(product) == kScaled ? kScaledAdd : kMultiplyAdd, operands};
  }

  int NewRegister() { return pairs_.registers++; }

  Operand OperandOf(int index, Element element) {
    using Place = Operand::Place;
    const Instruction& instruction = code_[index];
    if (instruction.operation == kConstant) return {Place::kConstant, ConstantIndex(instruction.number)};
    if (!domains_[At(index)].pair()) return {Place::kGiven, GivenIndex(index, element)};
    const std::optional<Operand> leaf = PairLeaf(instruction);
    if (leaf && element == Element::kNarrow) return *leaf;
    Value& value = values_[At(index)];
    int& own = value.registers[static_cast<std::size_t>(element)];
    if (own < 0) {
      const Element other = element == Element::kNarrow ? Element::kWide : Element::kNarrow;
      const int from = value.registers[static_cast<std::size_t>(other)];
      own = NewRegister();
      Step step{Step::Kind::kConvert, element, {}, -1, {}, own};
      step.operands.push_back(leaf ? *leaf : Operand{Place::kRegister, from});
      pairs_.steps.push_back(std::move(step));
    }
    return {Place::kRegister, own};
  }

  int ConstantIndex(double number) {
    const auto same = [&](double other) { return std::bit_cast<uint64_t>(other) == std::bit_cast<uint64_t>(number); };
    const auto at = std::find_if(pairs_.constants.begin(), pairs_.constants.end(), same) - pairs_.constants.begin();
    if (at == static_cast<std::ptrdiff_t>(pairs_.constants.size())) pairs_.constants.push_back(number);
    return static_cast<int>(at);
  }

  int GivenIndex(int index, Element element) {
    const auto same = [&](const Given& given) { return given.instruction == index; };
    const auto at = std::find_if(pairs_.given.begin(), pairs_.given.end(), same) - pairs_.given.begin();
    if (at == static_cast<std::ptrdiff_t>(pairs_.given.size())) pairs_.given.push_back({index, domains_[At(index)]});
    Given& given = pairs_.given[static_cast<std::size_t>(at)];
    (element == Element::kWide ? given.wide : given.narrow) = true;
    return static_cast<int>(at);
  }

  void Compute(int index) {
    const Instruction& instruction = code_[index];
    if (PairLeaf(instruction) || fused_[At(index)]) return;
    const bool reading = instruction.operation == kRead || instruction.operation == kDot;
    const Element element = ElementOf(index);
    const auto& [operation, operands] = StepOf(index);
    const Element of_result = !reading ? element : widths_.wide(index) ? Element::kWide : Element::kNarrow;
    Step step{reading ? Step::Kind::kRead : Step::Kind::kCompute, element, operation, index, {}, 0};
    step.of_result = of_result;
    for (int operand : operands) step.operands.push_back(OperandOf(operand, element));
    step.result = NewRegister();
    values_[At(index)].registers[static_cast<std::size_t>(of_result)] = step.result;
    pairs_.steps.push_back(std::move(step));
  }

  // Gives values whose times do not overlap the same register.
  void Allocate() {
    const int end = static_cast<int>(pairs_.steps.size());
    std::vector<int> last(At(pairs_.registers), -1), place(At(pairs_.registers), -1), free;
    const auto use = [&](const Operand& operand, int at) {
      if (operand.place == Operand::Place::kRegister) last[At(operand.index)] = at;
    };
    for (int at = 0; at < end; ++at)
      for (const Operand& operand : pairs_.steps[At(at)].operands) use(operand, at);
    for (const PairCode::Result& result : pairs_.results) use(result.operand, end);
    int count = 0;
    for (int at = 0; at < end; ++at) {
      Step& step = pairs_.steps[At(at)];
      std::vector<int> ending;
      for (Operand& operand : step.operands) {
        if (operand.place != Operand::Place::kRegister) continue;
        if (last[At(operand.index)] == at) {
          last[At(operand.index)] = end + 1;  // once
          ending.push_back(place[At(operand.index)]);
        }
        operand.index = place[At(operand.index)];
      }
      // Element by element a result may take the place of an operand; where types differ it may not.
      const bool in_place = step.kind == Step::Kind::kCompute;
      if (in_place) free.insert(free.end(), ending.begin(), ending.end());
      int own = count;
      if (free.empty()) {
        ++count;
      } else {
        own = free.back();
        free.pop_back();
      }
      place[At(step.result)] = own;
      step.result = own;
      if (!in_place) free.insert(free.end(), ending.begin(), ending.end());
    }
    for (PairCode::Result& result : pairs_.results)
      if (result.operand.place == Operand::Place::kRegister) result.operand.index = place[At(result.operand.index)];
    pairs_.registers = count;
  }

  const Code& code_;
  const std::vector<Domain>& domains_;
  Widths widths_;
  bool fuses_;
  std::vector<Value> values_;
  std::vector<char> fused_;  // by instruction: whether it is part of the step of another one
  PairCode pairs_;
};

}  // namespace

PairCode CompilePairs(const Code& code, const std::vector<Domain>& domains, const PairFacts& facts) {
  return PairCompiler(code, domains, facts).Run();
}

}  // namespace heed::program
