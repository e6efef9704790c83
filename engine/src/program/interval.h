// Interval arithmetic over programs: what a mask can say of many pairs at once.
#ifndef HEED_PROGRAM_INTERVAL_H_
#define HEED_PROGRAM_INTERVAL_H_

#include <algorithm>
#include <limits>

#include "program/code.h"
#include "program/table_reader.h"

namespace heed::program {

// All numbers from low to high; `nan`: or none at all.
struct Interval {
  double low = 0, high = 0;
  bool nan = false;

  static Interval Of(double number) { return {number, number, false}; }
  static Interval Anything() {
    return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), true};
  }
  // What joins with anything to that.
  static Interval Nothing() {
    return {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), false};
  }
  bool single() const { return low == high && !nan; }
  // Of a boolean: whether it is always true, always false.
  bool always() const { return low != 0 && !nan; }
  bool never() const { return high == 0 && !nan; }
};

// All numbers of both, and those between.
inline Interval Hull(const Interval& a, const Interval& b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high), a.nan || b.nan};
}

// The interval that holds an instruction's results, whatever its operands are within theirs.
Interval IntervalOf(const Instruction& instruction, const Interval* operands, const TableReaders& tables);

}  // namespace heed::program

#endif  // HEED_PROGRAM_INTERVAL_H_
