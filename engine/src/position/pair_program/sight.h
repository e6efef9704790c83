// What a mask program says of many pairs at once, and of single ones.
#ifndef HEED_POSITION_PAIR_PROGRAM_SIGHT_H_
#define HEED_POSITION_PAIR_PROGRAM_SIGHT_H_

#include <cstdint>
#include <vector>

#include "attention/plan.h"
#include "heed/attention.h"
#include "position/pair_program/form.h"
#include "program/interval.h"
#include "program/pair_code.h"

namespace heed::position {

// Numbers in a row, and the intervals that stretches of them lie in.
class NumberRow {
 public:
  explicit NumberRow(std::vector<double> numbers);

  double operator[](int64_t at) const { return numbers_[static_cast<std::size_t>(at)]; }
  // Of first .. last.
  program::Interval Over(int64_t first, int64_t last) const;

 private:
  static constexpr int64_t kFan = 8;
  // Of level 0 the numbers themselves, of each further level kFan of the one below.
  program::Interval At(int64_t level, int64_t x) const;

  std::vector<double> numbers_;
  std::vector<std::vector<program::Interval>> levels_;  // from level 1 on
};

class PairProgramSight {
 public:
  PairProgramSight(const Attention& attention, const Shape& shape);

  bool Hidden(int64_t b, int64_t h, int64_t i, int64_t j) const;
  attention::Seen Judge(const attention::PairBlock& pairs) const;

 private:
  const NumberRow& RowOf(std::size_t given, int64_t b, int64_t h) const {
    return rows_[given][static_cast<std::size_t>(form_.Row(given_[given].domain, b, h))];
  }
  program::Interval GivenOver(std::size_t given, const attention::PairBlock& pairs) const;

  PairForm form_;
  program::TableReaders tables_;
  program::Code code_;
  std::vector<program::Given> given_;
  std::vector<std::vector<NumberRow>> rows_;  // by given value and row of its domain
  // What is computed for pairs, in order: instructions, and where each operand stands among the values: those of instructions
  // first, then those given.
  std::vector<int> instructions_;
  std::vector<std::vector<std::size_t>> operands_;
  std::size_t result_ = 0;
};

}  // namespace heed::position

#endif  // HEED_POSITION_PAIR_PROGRAM_SIGHT_H_
