#include "program/code.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "core/refuse.h"
#include "program/operation.h"

namespace heed::program {
namespace {

using core::Refuse;
using enum Operation;

const char* NameOf(Kind kind) {
  return kind == Kind::kTruth ? "a boolean" : kind == Kind::kWhole ? "a whole number" : "a real number";
}

[[noreturn]] void RefuseOperand(Operation operation, const char* expected, Kind got) {
  Refuse("program", std::string(FactsOf(operation).name) + ": expected " + expected + ", got " + NameOf(got));
}

// The kind of an operation's result.
Kind KindOf(Operation operation, const std::vector<Kind>& operands) {
  const Kind widest = operands.empty() ? Kind::kReal : *std::max_element(operands.begin(), operands.end());
  switch (FactsOf(operation).typing) {
    case Typing::kArithmetic:
      return std::max(widest, Kind::kWhole);
    case Typing::kReal:
      return Kind::kReal;
    case Typing::kWhole:
      return Kind::kWhole;
    case Typing::kComparison:
      return Kind::kTruth;
    case Typing::kLogic:
      for (Kind kind : operands)
        if (kind != Kind::kTruth) RefuseOperand(operation, "booleans", kind);
      return Kind::kTruth;
    case Typing::kSelection:
      if (operands[0] != Kind::kTruth) RefuseOperand(operation, "a boolean condition", operands[0]);
      return std::max(operands[1], operands[2]);
  }
  return Kind::kReal;
}

bool Commutes(Operation operation) {
  return operation == kAdd || operation == kMultiply || operation == kEqual || operation == kNotEqual || operation == kAnd ||
         operation == kOr;
}

}  // namespace

CodeBuilder::CodeBuilder(const Code& code) {
  code_.tables_ = code.tables_;
  for (int index = 0; index < code.size(); ++index) Add(code[index]);
}

int CodeBuilder::Add(Instruction instruction) {
  const Key key{instruction.operation, instruction.kind, instruction.operands, std::bit_cast<uint64_t>(instruction.number),
                instruction.reading};
  const auto [known, fresh] = known_.try_emplace(key, code_.size());
  if (!fresh) return known->second;
  if (code_.size() == kMostInstructions)
    Refuse("program", "expected at most " + std::to_string(kMostInstructions) + " operations");
  code_.instructions_.push_back(std::move(instruction));
  return known->second;
}

int CodeBuilder::Leaf(Operation operation) { return Add({operation, KindOf(operation, {}), {}, 0, {}}); }

int CodeBuilder::Constant(double number, Kind kind) { return Add({kConstant, kind, {}, number, {}}); }

int CodeBuilder::Kept(int place) { return Add({kKept, Kind::kReal, {}, static_cast<double>(place), {}}); }

bool CodeBuilder::IsConstant(int index, double number) const {
  return code_[index].operation == kConstant && code_[index].number == number;
}

// An instruction that computes the same without computing anything, or -1.
int CodeBuilder::Simplified(Operation operation, const std::vector<int>& x) {
  const auto real = [&](int index) { return code_[index].kind == Kind::kReal; };
  switch (operation) {
    // Not where it would turn a whole number or a boolean into a real number.
    case kAdd:
      if (IsConstant(x[0], 0) && (real(x[1]) || !real(x[0])) && code_[x[1]].kind != Kind::kTruth) return x[1];
      [[fallthrough]];
    case kSubtract:
      if (IsConstant(x[1], 0) && (real(x[0]) || !real(x[1])) && code_[x[0]].kind != Kind::kTruth) return x[0];
      return -1;
    case kMultiply:
      if (IsConstant(x[0], 1) && (real(x[1]) || !real(x[0])) && code_[x[1]].kind != Kind::kTruth) return x[1];
      if (IsConstant(x[1], 1) && (real(x[0]) || !real(x[1])) && code_[x[0]].kind != Kind::kTruth) return x[0];
      return -1;
    case kDivide:
      if (IsConstant(x[1], 1) && real(x[0])) return x[0];
      return -1;
    case kScaled:
      return IsConstant(x[1], 1) && real(x[0]) ? x[0] : -1;
    case kFloor:
    case kTruncate:
      return !real(x[0]) && code_[x[0]].kind == Kind::kWhole ? x[0] : -1;
    case kAnd:
      if (IsConstant(x[0], 1)) return x[1];
      return IsConstant(x[1], 1) || x[0] == x[1] ? x[0] : -1;
    case kOr:
      if (IsConstant(x[0], 0)) return x[1];
      return IsConstant(x[1], 0) || x[0] == x[1] ? x[0] : -1;
    case kSelect:
      if (code_[x[1]].kind != code_[x[2]].kind) return -1;
      if (code_[x[0]].operation == kConstant) return code_[x[0]].number != 0 ? x[1] : x[2];
      return x[1] == x[2] ? x[1] : -1;
    default:
      return -1;
  }
}

// Powers that need no logarithm, or -1.
int CodeBuilder::SmallPower(int base, double exponent) {
  if (exponent == 1) return base;
  if (exponent == 2) return Apply(kMultiply, {base, base});
  if (exponent == 3) return Apply(kMultiply, {base, Apply(kMultiply, {base, base})});
  if (exponent == 4) return SmallPower(SmallPower(base, 2), 2);
  return exponent == -1 ? Apply(kReciprocal, {base}) : -1;
}

int CodeBuilder::Apply(Operation operation, std::vector<int> operands) {
  std::vector<Kind> kinds;
  kinds.reserve(operands.size());
  for (int operand : operands) kinds.push_back(code_[operand].kind);
  const Kind kind = KindOf(operation, kinds);
  if (std::all_of(operands.begin(), operands.end(), [&](int x) { return code_[x].operation == kConstant; })) {
    std::vector<double> numbers;
    numbers.reserve(operands.size());
    for (int operand : operands) numbers.push_back(code_[operand].number);
    return Constant(Compute(operation, numbers.data()), kind);
  }
  if (const int same = Simplified(operation, operands); same >= 0) return same;
  if (operation == kPower && code_[operands[0]].kind == Kind::kReal && code_[operands[1]].operation == kConstant)
    if (const int product = SmallPower(operands[0], code_[operands[1]].number); product >= 0) return product;
  if (Commutes(operation)) std::sort(operands.begin(), operands.end());
  return Add({operation, kind, std::move(operands), 0, {}});
}

void CodeBuilder::Use(int place, Kind kind, int dimensions) {
  if (place < 0 || place >= kMostTables)
    Refuse("program", "expected a table's place in 0.." + std::to_string(kMostTables - 1) + ", got " + std::to_string(place));
  if (dimensions < 1 || dimensions > 4)
    Refuse("program", "expected 1 to 4 indices for table " + std::to_string(place) + ", got " + std::to_string(dimensions));
  if (place >= static_cast<int>(code_.tables_.size())) code_.tables_.resize(static_cast<std::size_t>(place) + 1);
  Code::TableUse& use = code_.tables_[static_cast<std::size_t>(place)];
  if (use.dimensions == 0) use = {kind, dimensions};
  if (use.dimensions != dimensions || use.kind != kind)
    Refuse("program",
           "table " + std::to_string(place) + " is read in two ways: as another kind, or with another number of indices");
}

int CodeBuilder::Read(int place, Kind kind, std::vector<int> indices) {
  for (int index : indices)
    if (code_[index].kind == Kind::kReal) RefuseOperand(kRead, "whole indices", Kind::kReal);
  Use(place, kind, static_cast<int>(indices.size()));
  const int count = static_cast<int>(indices.size());
  return Add({kRead, kind, std::move(indices), 0, {place, -1, count}});
}

int CodeBuilder::Dot(int place, int other, std::vector<int> indices, int of_first) {
  for (int index : indices)
    if (code_[index].kind == Kind::kReal) RefuseOperand(kDot, "whole indices", Kind::kReal);
  Use(place, Kind::kReal, of_first + 1);
  Use(other, Kind::kReal, static_cast<int>(indices.size()) - of_first + 1);
  return Add({kDot, Kind::kReal, std::move(indices), 0, {place, other, of_first}});
}

int CodeBuilder::Again(const Instruction& instruction, std::vector<int> operands) {
  switch (instruction.operation) {
    case kConstant:
      return Constant(instruction.number, instruction.kind);
    case kKept:
      return Kept(static_cast<int>(instruction.number));
    case kRead:
      return Read(instruction.reading.place, instruction.kind, std::move(operands));
    case kDot:
      return Dot(instruction.reading.place, instruction.reading.other, std::move(operands), instruction.reading.indices);
    default:
      return FactsOf(instruction.operation).operands == 0 ? Leaf(instruction.operation)
                                                          : Apply(instruction.operation, std::move(operands));
  }
}

Code CodeBuilder::Finish(const std::vector<int>& results) const {
  std::vector<char> needed(static_cast<std::size_t>(code_.size()), 0);
  for (int result : results) needed[static_cast<std::size_t>(result)] = 1;
  for (int index = code_.size() - 1; index >= 0; --index)
    if (needed[static_cast<std::size_t>(index)])
      for (int operand : code_[index].operands) needed[static_cast<std::size_t>(operand)] = 1;
  Code code;
  code.tables_ = code_.tables_;
  std::vector<int> place(static_cast<std::size_t>(code_.size()), -1);
  for (int index = 0; index < code_.size(); ++index) {
    if (!needed[static_cast<std::size_t>(index)]) continue;
    place[static_cast<std::size_t>(index)] = code.size();
    code.instructions_.push_back(code_[index]);
    for (int& operand : code.instructions_.back().operands) operand = place[static_cast<std::size_t>(operand)];
  }
  for (int result : results) code.results_.push_back(place[static_cast<std::size_t>(result)]);
  return code;
}

}  // namespace heed::program
