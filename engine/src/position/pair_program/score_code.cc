#include "position/pair_program/score_code.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include "program/code.h"

namespace heed::position {
namespace {

using program::Code;
using program::CodeBuilder;
using program::Domain;
using program::Instruction;
using program::Kind;
using enum program::Operation;

std::size_t At(int index) { return static_cast<std::size_t>(index); }

// By instruction: whether it depends on the score.
std::vector<char> DependsOnScore(const Code& code) {
  std::vector<char> depends(At(code.size()), 0);
  for (int index = 0; index < code.size(); ++index) {
    depends[At(index)] = code[index].operation == kScore;
    for (int operand : code[index].operands) depends[At(index)] |= depends[At(operand)];
  }
  return depends;
}

// What an instruction is besides the score that it is added to: an instruction of `builder`, if it is of that form.
std::optional<int> BiasOf(CodeBuilder& builder, const Code& code, const std::vector<char>& depends, int index) {
  const Instruction& instruction = code[index];
  if (instruction.operation == kScore) return builder.Constant(0, Kind::kReal);
  if (instruction.operation != kAdd && instruction.operation != kSubtract) return std::nullopt;
  const int a = instruction.operands[0], b = instruction.operands[1];
  if (depends[At(a)] && !depends[At(b)]) {
    const auto rest = BiasOf(builder, code, depends, a);
    return rest ? std::optional(builder.Apply(instruction.operation, {*rest, b})) : std::nullopt;
  }
  if (depends[At(b)] && !depends[At(a)] && instruction.operation == kAdd) {
    const auto rest = BiasOf(builder, code, depends, b);
    return rest ? std::optional(builder.Apply(kAdd, {a, *rest})) : std::nullopt;
  }
  return std::nullopt;
}

bool Reads(const Instruction& instruction) { return instruction.operation == kRead || instruction.operation == kDot; }

bool Wanted(const Instruction& instruction, const std::vector<char>& wanted) {
  const auto is = [&](int place) { return place >= 0 && At(place) < wanted.size() && wanted[At(place)] != 0; };
  return Reads(instruction) && instruction.kind == Kind::kReal &&
         (is(instruction.reading.place) || is(instruction.reading.other));
}

// By instruction: whether a gradient is wanted of something that it is made of.
std::vector<char> MadeOfWanted(const Code& code, const std::vector<char>& wanted) {
  std::vector<char> made(At(code.size()), 0);
  for (int index = 0; index < code.size(); ++index) {
    made[At(index)] = Wanted(code[index], wanted);
    if (code[index].kind == Kind::kReal && !Reads(code[index]))
      for (int operand : code[index].operands) made[At(index)] |= made[At(operand)];
  }
  return made;
}

// The way from a given value's gradient to its tables.
GivenGradient GivenGradientOf(const Code& code, const Domain& domain, int instruction, const program::PositionForm& form,
                              const std::vector<char>& wanted) {
  CodeBuilder builder(code);
  std::vector<int> targets;
  for (int index : program::NeededBy(code, instruction))
    if (Wanted(code[index], wanted)) targets.push_back(index);
  const std::vector<int> gradients = Differentiate(builder, instruction, builder.Leaf(kGradient), targets);
  GivenGradient given;
  given.domain = domain;
  std::vector<int> results;
  std::vector<std::size_t> read_targets;
  for (std::size_t x = 0; x < targets.size(); ++x) {
    if (gradients[x] < 0) continue;
    read_targets.push_back(x);
    results.push_back(gradients[x]);
    for (int index : code[targets[x]].operands) results.push_back(index);
  }
  given.code = builder.Finish(results);
  given.domains = DomainsOf(given.code, form);
  std::size_t next = 0;
  for (std::size_t x : read_targets) {
    const Instruction& read = code[targets[x]];
    ReadGradient gradient{read.reading, read.operation == kDot, given.code.results()[next++], {}};
    for (std::size_t o = 0; o < read.operands.size(); ++o) gradient.indices.push_back(given.code.results()[next++]);
    given.reads.push_back(std::move(gradient));
  }
  return given;
}

// What costs more to compute than to keep.
bool Costly(const Instruction& instruction) {
  if (instruction.kind != Kind::kReal) return false;
  const program::Operation operation = instruction.operation;
  return Reads(instruction) || operation == kDivide || operation == kPower || (operation >= kExp && operation <= kCos);
}

// Finishes both parts of the backward pass. The gradients' `results` in `builder`, which begins with the forward code, take
// costly values of pairs from what the forward part keeps.
void Keep(const CodeBuilder& builder, const Code& forward, const std::vector<Domain>& domains, const std::vector<int>& results,
          BackwardCode& backward) {
  constexpr std::size_t kMostKept = 4;  // arrays as large as a tile of scores
  std::vector<char> needed(At(builder.size()), 0);
  for (int result : results) needed[At(result)] = 1;
  std::vector<int> kept{forward.result()};
  for (int index = builder.size() - 1; index >= 0; --index) {
    if (!needed[At(index)]) continue;
    if (index < forward.size() && domains[At(index)].pair() && Costly(builder[index]) && kept.size() <= kMostKept) {
      kept.push_back(index);
      continue;
    }
    for (int operand : builder[index].operands) needed[At(operand)] = 1;
  }
  backward.forward = CodeBuilder(forward).Finish(kept);

  CodeBuilder gradients;
  std::vector<int> place(At(builder.size()), -1), moved;
  for (std::size_t x = 1; x < kept.size(); ++x) place[At(kept[x])] = gradients.Kept(static_cast<int>(x) - 1);
  for (int index = 0; index < builder.size(); ++index) {
    if (!needed[At(index)] || place[At(index)] >= 0) continue;
    std::vector<int> operands;
    for (int operand : builder[index].operands) operands.push_back(place[At(operand)]);
    place[At(index)] = gradients.Again(builder[index], std::move(operands));
  }
  for (int result : results) moved.push_back(place[At(result)]);
  backward.code = gradients.Finish(moved);
}

}  // namespace

ForwardCode ForwardCodeOf(const Code& program, const program::PositionForm& form) {
  const Code code = WithOrigins(program, form);
  CodeBuilder builder(code);
  const auto bias = BiasOf(builder, code, DependsOnScore(code), code.result());
  if (!bias) return {code, false};
  return {builder.Finish({*bias}), true};
}

bool ReadsScore(const Code& code) {
  for (int index = 0; index < code.size(); ++index)
    if (code[index].operation == kScore) return true;
  return false;
}

KernelCode KernelCodeOf(const Code& forward, bool additive) {
  if (additive) return {forward, 1};
  CodeBuilder builder;
  std::vector<int> place;
  bool scaled_alone = true;
  for (int index = 0; index < forward.size(); ++index) {
    const Instruction& instruction = forward[index];
    const auto is = [&](std::size_t operand, program::Operation operation) {
      return operand < instruction.operands.size() && forward[instruction.operands[operand]].operation == operation;
    };
    std::vector<int> operands;
    operands.reserve(instruction.operands.size());
    for (int operand : instruction.operands) operands.push_back(place[At(operand)]);
    const bool first = is(0, kScore), second = is(1, kScore);
    const bool by_constant = (first && is(1, kConstant)) || (second && is(0, kConstant));
    if (by_constant && (instruction.operation == kMultiply || (instruction.operation == kDivide && first))) {
      const double constant = forward[instruction.operands[first ? 1 : 0]].number;
      const double factor = std::numbers::ln2 * (instruction.operation == kDivide ? 1 / constant : constant);
      const int bits = builder.Leaf(kScoreBits);
      place.push_back(builder.Apply(kMultiply, {bits, builder.Constant(factor, Kind::kReal)}));
      continue;
    }
    scaled_alone = scaled_alone && !first && !second && !is(2, kScore);
    place.push_back(builder.Again(instruction, std::move(operands)));
  }
  std::vector<int> results;
  for (int result : forward.results()) {
    scaled_alone = scaled_alone && forward[result].operation != kScore;
    results.push_back(place[At(result)]);
  }
  if (!scaled_alone) return {forward, 1};
  double factor = 1;
  const Instruction& last = builder[results[0]];
  // What is left is a score, which a whole number is not.
  const auto factor_at = [&](std::size_t operand) {
    const Instruction& of = builder[last.operands[operand]];
    return of.operation == kConstant && of.number != 0 && std::isfinite(of.number) &&
           builder[last.operands[1 - operand]].kind == Kind::kReal;
  };
  if (last.operation == kMultiply && (factor_at(0) || factor_at(1))) {
    const std::size_t constant = factor_at(0) ? 0 : 1;
    factor = builder[last.operands[constant]].number;
    results[0] = last.operands[1 - constant];
  }
  return {builder.Finish(results), factor};
}

program::Code CurvatureCodeOf(const ForwardCode& forward) {
  const Code& code = forward.code;
  CodeBuilder builder(code);
  int score = -1;
  for (int index = 0; index < code.size(); ++index)
    if (code[index].operation == kScore) score = index;
  if (score < 0 || forward.additive) return {};
  const int gradient = builder.Leaf(kGradient), tangent = builder.Kept(0);
  const int slope = Differentiate(builder, code.result(), gradient, {score})[0];
  if (slope < 0) return {};
  const int curvature = Differentiate(builder, slope, tangent, {score})[0];
  return curvature < 0 ? Code() : builder.Finish({curvature});
}

BackwardCode TangentCodeOf(const ForwardCode& forward, const program::PositionForm& form, const std::vector<int>& tangents) {
  const Code& code = forward.code;
  CodeBuilder builder(code);
  std::vector<char> moving(tangents.size());
  std::ranges::transform(tangents, moving.begin(), [](int place) { return static_cast<char>(place >= 0); });
  std::vector<int> score, reads;
  for (int index = 0; index < code.size(); ++index) {
    if (code[index].operation == kScore) score.push_back(index);
    if (Wanted(code[index], moving)) reads.push_back(index);
  }
  const int arriving = builder.Leaf(kGradient);
  int tangent = forward.additive ? arriving : -1;
  if (!forward.additive && !score.empty()) tangent = Differentiate(builder, code.result(), arriving, score)[0];
  const int passed = tangent;
  const auto place = [&](int table) { return table >= 0 && At(table) < tangents.size() ? tangents[At(table)] : -1; };
  const auto add = [&](int number, int partial) {
    const int term = builder.Apply(kScaled, {number, partial});
    tangent = tangent < 0 ? term : builder.Apply(kAdd, {tangent, term});
  };
  const std::vector<int> partials = Differentiate(builder, code.result(), builder.Constant(1, Kind::kReal), reads);
  for (std::size_t x = 0; x < reads.size(); ++x) {
    if (partials[x] < 0) continue;
    const Instruction& read = code[reads[x]];
    const auto& [first, other, indices] = read.reading;
    if (read.operation == kRead) {
      add(builder.Read(place(first), Kind::kReal, read.operands), partials[x]);
      continue;
    }
    if (place(first) >= 0) add(builder.Dot(place(first), other, read.operands, indices), partials[x]);
    if (place(other) >= 0) add(builder.Dot(first, place(other), read.operands, indices), partials[x]);
  }
  BackwardCode backward;
  backward.severed = tangent < 0;
  backward.tables_move = tangent != passed;
  std::vector<int> results;
  if (tangent >= 0 && tangent != arriving) {
    results.push_back(tangent);
    backward.score = 0;
  }
  Keep(builder, code, DomainsOf(code, form), results, backward);
  return backward;
}

BackwardCode BackwardCodeOf(const ForwardCode& forward, const program::PositionForm& form, const std::vector<char>& wanted) {
  const Code& code = forward.code;
  const std::vector<Domain> domains = DomainsOf(code, form);
  const std::vector<char> made = MadeOfWanted(code, wanted);
  CodeBuilder builder(code);
  const int gradient = builder.Leaf(kGradient);

  // Pairs pass their gradient on to the score, to reads of their own, and to what does not depend on the pair.
  std::vector<char> used_by_pairs(At(code.size()), 0);
  used_by_pairs[At(code.result())] = 1;
  for (int index = 0; index < code.size(); ++index)
    if (domains[At(index)].pair())
      for (int operand : code[index].operands) used_by_pairs[At(operand)] = 1;
  int score = -1;
  std::vector<int> given, reads, targets;
  for (int index = 0; index < code.size(); ++index) {
    if (code[index].operation == kScore) score = index;
    if (domains[At(index)].pair() && Wanted(code[index], wanted)) reads.push_back(index);
    if (!domains[At(index)].pair() && used_by_pairs[At(index)] && made[At(index)]) given.push_back(index);
  }
  if (score >= 0) targets.push_back(score);
  targets.insert(targets.end(), given.begin(), given.end());
  targets.insert(targets.end(), reads.begin(), reads.end());
  const std::vector<int> gradients = Differentiate(builder, code.result(), gradient, targets);

  BackwardCode backward;
  std::vector<int> results;
  const auto add = [&](int instruction) {
    results.push_back(instruction);
    return static_cast<int>(results.size()) - 1;
  };
  backward.severed = !forward.additive && (score < 0 || gradients[0] < 0);
  for (std::size_t x = 0; x < targets.size(); ++x) {
    if (gradients[x] < 0) continue;
    const int target = targets[x], result = add(gradients[x]);
    if (target == score) {
      backward.score = result;
    } else if (!domains[At(target)].pair()) {
      backward.given.push_back(GivenGradientOf(code, domains[At(target)], target, form, wanted));
      backward.given.back().gradient = result;
    } else {
      ReadGradient read{code[target].reading, code[target].operation == kDot, result, {}};
      for (int index : code[target].operands) read.indices.push_back(add(index));
      backward.reads.push_back(std::move(read));
    }
  }
  Keep(builder, code, domains, results, backward);
  return backward;
}

}  // namespace heed::position
