#include "program/code.h"

#include <algorithm>
#include <optional>

namespace heed::program {
namespace {

using enum Operation;

// A value that is of_query * query + of_key * key + something that knows neither.
struct Linear {
  double of_query = 0, of_key = 0;
};

Axis AxisOf(const Linear& form) {
  if (form.of_query == 0) return form.of_key == 0 ? Axis::kNone : Axis::kKey;
  if (form.of_key == 0) return Axis::kQuery;
  return form.of_query == -form.of_key ? Axis::kOffset : Axis::kPair;
}

Axis Join(Axis a, Axis b) {
  if (a == Axis::kNone || a == b) return b;
  return b == Axis::kNone ? a : Axis::kPair;
}

class Analysis {
 public:
  Analysis(const Code& code, const PositionForm& form) : code_(code), form_(form) {
    for (int index = 0; index < code.size(); ++index) {
      const Instruction& instruction = code[index];
      Domain domain = LeafDomain(instruction.operation);
      for (int operand : instruction.operands) {
        const Domain& of = domains_[static_cast<std::size_t>(operand)];
        domain = {Join(domain.axis, of.axis), domain.batch || of.batch, domain.head || of.head};
      }
      linear_.push_back(LinearOf(instruction, domain));
      if (linear_.back()) domain.axis = AxisOf(*linear_.back());
      domains_.push_back(domain);
    }
  }
  std::vector<Domain> domains() && { return std::move(domains_); }

 private:
  Domain LeafDomain(Operation operation) const {
    switch (operation) {
      case kScore:
      case kScoreBits:
      case kGradient:
      case kKept:
        return {Axis::kPair, true, true};
      case kBatch:
        return {Axis::kNone, true, false};
      case kHead:
        return {Axis::kNone, false, true};
      case kQuery:
        return {Axis::kQuery, false, false};
      case kKey:
        return {Axis::kKey, false, false};
      case kQueryPosition:
        return {Axis::kQuery, form_.per_row || form_.packed, false};
      case kKeyPosition:
        return {Axis::kKey, form_.per_row || form_.packed, false};
      case kQueryOrigin:
      case kKeyOrigin:
        return {Axis::kNone, form_.packed, false};
      default:
        return {};
    }
  }

  std::optional<Linear> LinearOf(const Instruction& instruction, const Domain& domain) const {
    const auto of = [&](int operand) {
      return linear_[static_cast<std::size_t>(instruction.operands[static_cast<std::size_t>(operand)])];
    };
    const auto factor = [&](int operand) -> std::optional<double> {
      const Instruction& constant = code_[instruction.operands[static_cast<std::size_t>(operand)]];
      return constant.operation == kConstant ? std::optional(constant.number) : std::nullopt;
    };
    switch (instruction.operation) {
      case kQuery:
        return Linear{1, 0};
      case kKey:
        return Linear{0, 1};
      case kNegate:
        if (const auto a = of(0)) return Linear{-a->of_query, -a->of_key};
        break;
      case kAdd:
      case kSubtract: {
        const auto a = of(0), b = of(1);
        const double sign = instruction.operation == kAdd ? 1 : -1;
        if (a && b) return Linear{a->of_query + sign * b->of_query, a->of_key + sign * b->of_key};
        break;
      }
      case kMultiply:
        for (int x = 0; x < 2; ++x) {
          const auto c = factor(x);
          const auto a = of(1 - x);
          if (c && a) return Linear{*c * a->of_query, *c * a->of_key};
        }
        break;
      default:
        break;
    }
    return domain.axis == Axis::kNone ? std::optional(Linear{}) : std::nullopt;
  }

  const Code& code_;
  const PositionForm& form_;
  std::vector<Domain> domains_;
  std::vector<std::optional<Linear>> linear_;
};

}  // namespace

Code WithOrigins(const Code& code, const PositionForm& form) {
  CodeBuilder builder;
  std::vector<int> places, results;
  for (int index = 0; index < code.size(); ++index) {
    const Instruction& instruction = code[index];
    const bool query = instruction.operation == kQueryPosition;
    if ((query || instruction.operation == kKeyPosition) && !form.listed) {
      const int counted =
          builder.Apply(kAdd, {builder.Leaf(query ? kQuery : kKey), builder.Leaf(query ? kQueryOrigin : kKeyOrigin)});
      // Positions are real numbers, also where they are counted.
      places.push_back(builder.Apply(kMultiply, {counted, builder.Constant(1, Kind::kReal)}));
      continue;
    }
    std::vector<int> operands;
    operands.reserve(instruction.operands.size());
    for (int operand : instruction.operands) operands.push_back(places[static_cast<std::size_t>(operand)]);
    places.push_back(builder.Again(instruction, std::move(operands)));
  }
  for (int result : code.results()) results.push_back(places[static_cast<std::size_t>(result)]);
  return builder.Finish(results);
}

std::vector<Domain> DomainsOf(const Code& code, const PositionForm& form) { return Analysis(code, form).domains(); }

std::vector<int> NeededBy(const Code& code, int instruction) {
  std::vector<char> needed(static_cast<std::size_t>(instruction) + 1, 0);
  needed.back() = 1;
  for (int index = instruction; index >= 0; --index)
    if (needed[static_cast<std::size_t>(index)])
      for (int operand : code[index].operands) needed[static_cast<std::size_t>(operand)] = 1;
  std::vector<int> instructions;
  for (int index = 0; index <= instruction; ++index)
    if (needed[static_cast<std::size_t>(index)]) instructions.push_back(index);
  return instructions;
}

}  // namespace heed::program
