#include "program/interval.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "program/operation.h"

namespace heed::program {
namespace {

using enum Operation;

// Entries of a table that are looked at one by one.
constexpr double kMostEntries = 512;

Interval Truth(bool always, bool never) { return {always ? 1.0 : 0.0, never ? 0.0 : 1.0, false}; }

bool Contains(const Interval& a, double number) { return a.low <= number && number <= a.high; }

// Of the numbers at the corners, for what is monotone in each operand; anything where one of them is no number.
Interval Corners(Operation operation, const Interval& a, const Interval& b) {
  Interval corners = Interval::Nothing();
  corners.nan = a.nan || b.nan;
  for (double x : {a.low, a.high})
    for (double y : {b.low, b.high}) {
      const double numbers[] = {x, y};
      const double corner = Compute(operation, numbers);
      if (std::isnan(corner)) return Interval::Anything();
      corners = Hull(corners, Interval::Of(corner));
    }
  return corners;
}

bool Endless(const Interval& a) { return std::isinf(a.low) || std::isinf(a.high); }

// 0 times infinity need not be at a corner.
Interval ProductOf(const Interval& a, const Interval& b) {
  if ((Endless(a) && Contains(b, 0)) || (Endless(b) && Contains(a, 0))) return Interval::Anything();
  return Corners(kMultiply, a, b);
}

Interval QuotientOf(Operation operation, const Interval& a, const Interval& b) {
  if (Contains(b, 0) || Endless(a) || Endless(b)) return Interval::Anything();
  return Corners(operation, a, b);
}

// Of a function that grows and may be computed with a few roundings of difference elsewhere.
Interval Growing(Operation operation, const Interval& a, double lowest) {
  if (a.low < lowest) return Interval::Anything();
  const auto loose = [](double end) { return std::isfinite(end) ? 1e-12 * (1 + std::abs(end)) : 0; };
  const double low = Compute(operation, &a.low), high = Compute(operation, &a.high);
  return {low - loose(low), high + loose(high), a.nan};
}

Interval RemainderOf(const Interval& a, const Interval& b) {
  if (a.nan || b.nan || Contains(b, 0) || Endless(a) || Endless(b)) return Interval::Anything();
  if (b.single() && FloorQuotient(a.low, b.low) == FloorQuotient(a.high, b.low))
    return Hull(Interval::Of(FloorRemainder(a.low, b.low)), Interval::Of(FloorRemainder(a.high, b.low)));
  return b.low > 0 ? Interval{0, b.high, false} : Interval{b.low, 0, false};
}

Interval AbsoluteOf(const Interval& a) {
  const double low = std::abs(a.low), high = std::abs(a.high);
  return {Contains(a, 0) ? 0 : std::min(low, high), std::max(low, high), a.nan};
}

Interval Compare(Operation operation, const Interval& a, const Interval& b) {
  if (a.nan || b.nan) return Truth(false, false);
  const bool apart = a.high < b.low || b.high < a.low, same = a.single() && b.single() && a.low == b.low;
  switch (operation) {
    case kLess:
      return Truth(a.high < b.low, a.low >= b.high);
    case kLessEqual:
      return Truth(a.high <= b.low, a.low > b.high);
    case kEqual:
      return Truth(same, apart);
    default:
      return Truth(apart, same);
  }
}

Interval ReadOf(const Instruction& read, const Interval* indices, const TableReaders& tables) {
  const TableReader& table = tables[static_cast<std::size_t>(read.reading.place)];
  const Interval otherwise = read.kind == Kind::kTruth ? Interval{0, 1, true} : Interval::Anything();
  const int dimensions = static_cast<int>(read.operands.size());
  double entries = 1;
  for (int x = 0; x < dimensions; ++x) {
    if (indices[x].nan) return otherwise;
    entries *= indices[x].high - indices[x].low + 1;
  }
  if (!(entries <= kMostEntries)) return otherwise;
  std::array<double, 4> index{};
  for (int x = 0; x < dimensions; ++x) index[static_cast<std::size_t>(x)] = indices[x].low;
  Interval all = Interval::Nothing();
  for (int next = 0; next >= 0;) {
    const double entry = table.Read(index.data(), dimensions);
    if (std::isnan(entry)) return otherwise;
    all = Hull(all, Interval::Of(entry));
    for (next = dimensions - 1; next >= 0; --next) {
      double& at = index[static_cast<std::size_t>(next)];
      if (++at <= indices[next].high) break;
      at = indices[next].low;
    }
  }
  return all;
}

}  // namespace

Interval IntervalOf(const Instruction& instruction, const Interval* x, const TableReaders& tables) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  switch (instruction.operation) {
    case kConstant:
      return std::isnan(instruction.number) ? Interval::Anything() : Interval::Of(instruction.number);
    case kRead:
      return ReadOf(instruction, x, tables);
    case kAdd:
    case kSubtract:
    case kMinimum:
    case kMaximum:
      return Corners(instruction.operation, x[0], x[1]);
    case kMultiply:
      return ProductOf(x[0], x[1]);
    case kDivide:
    case kFloorDivide:
      return QuotientOf(instruction.operation, x[0], x[1]);
    case kRemainder:
      return RemainderOf(x[0], x[1]);
    case kNegate:
      return {-x[0].high, -x[0].low, x[0].nan};
    case kAbsolute:
      return AbsoluteOf(x[0]);
    case kFloor:
      return {std::floor(x[0].low), std::floor(x[0].high), x[0].nan};
    case kTruncate:
      return {std::trunc(x[0].low), std::trunc(x[0].high), x[0].nan};
    case kToBFloat16:
    case kToFloat16:
    case kExp:
    case kExp2:
    case kTanh:
    case kSigmoid:
    case kErf:
      return Growing(instruction.operation, x[0], kLowest);
    case kLog:
    case kSqrt:
      return Growing(instruction.operation, x[0], 0);
    case kLog1p:
      return Growing(instruction.operation, x[0], -1);
    case kLess:
    case kLessEqual:
    case kEqual:
    case kNotEqual:
      return Compare(instruction.operation, x[0], x[1]);
    case kAnd:
      return Truth(x[0].always() && x[1].always(), x[0].never() || x[1].never());
    case kOr:
      return Truth(x[0].always() || x[1].always(), x[0].never() && x[1].never());
    case kNot:
      return Truth(x[0].never(), x[0].always());
    case kSelect:
      return x[0].always() ? x[1] : x[0].never() ? x[2] : Hull(x[1], x[2]);
    default:
      return instruction.kind == Kind::kTruth ? Interval{0, 1, true} : Interval::Anything();
  }
}

}  // namespace heed::program
