#include "position/pair_program/sight.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "position/pair_program/call_code.h"
#include "program/operation.h"

namespace heed::position {
using program::Interval;

NumberRow::NumberRow(std::vector<double> numbers) : numbers_(std::move(numbers)) {
  for (int64_t below = static_cast<int64_t>(numbers_.size()), level = 0; below > kFan; ++level) {
    std::vector<Interval> joined(static_cast<std::size_t>((below + kFan - 1) / kFan), Interval::Nothing());
    for (int64_t x = 0; x < below; ++x) {
      Interval& all = joined[static_cast<std::size_t>(x / kFan)];
      all = Hull(all, At(level, x));
    }
    below = static_cast<int64_t>(joined.size());
    levels_.push_back(std::move(joined));
  }
}

Interval NumberRow::At(int64_t level, int64_t x) const {
  if (level > 0) return levels_[static_cast<std::size_t>(level - 1)][static_cast<std::size_t>(x)];
  const double number = numbers_[static_cast<std::size_t>(x)];
  return std::isnan(number) ? Interval::Anything() : Interval::Of(number);
}

Interval NumberRow::Over(int64_t first, int64_t last) const {
  Interval all = Interval::Nothing();
  const auto top = static_cast<int64_t>(levels_.size());
  for (int64_t level = 0; first <= last; ++level) {
    while (first <= last && (level == top || first % kFan != 0)) all = Hull(all, At(level, first++));
    while (first <= last && (level == top || last % kFan != kFan - 1)) all = Hull(all, At(level, last--));
    first /= kFan;
    // Nothing is left where the last one fell below.
    last = last < 0 ? -1 : (last + 1) / kFan - 1;
  }
  return all;
}

PairProgramSight::PairProgramSight(const Attention& attention, const Shape& shape)
    : form_(attention, shape),
      tables_(ReadersOf(attention.mask_program->program.code(), attention.mask_program->tables)),
      code_(program::WithOrigins(attention.mask_program->program.code(), form_.positions())) {
  const std::vector<program::Domain> domains = program::DomainsOf(code_, form_.positions());
  const auto domain = [&](int index) { return domains[static_cast<std::size_t>(index)]; };
  std::map<int, std::size_t> place;
  std::vector<int> given;
  const auto is_given = [&](int index) { return !domain(index).pair(); };
  const auto need = [&](int index) {
    if (is_given(index) && std::find(given.begin(), given.end(), index) == given.end()) given.push_back(index);
  };
  for (int index = 0; index < code_.size(); ++index) {
    if (is_given(index)) continue;
    place[index] = instructions_.size();
    instructions_.push_back(index);
    for (int operand : code_[index].operands) need(operand);
  }
  need(code_.result());
  for (int index : given) {
    place[index] = instructions_.size() + given_.size();
    given_.push_back({index, domain(index)});
  }
  for (int index : instructions_) {
    operands_.emplace_back();
    for (int operand : code_[index].operands) operands_.back().push_back(place.at(operand));
  }
  result_ = place.at(code_.result());
  for (const program::Given& value : given_) {
    std::vector<std::vector<double>> numbers(static_cast<std::size_t>(form_.Rows(value.domain)));
    for (std::vector<double>& row : numbers) row.reserve(static_cast<std::size_t>(form_.Length(value.domain.axis)));
    Stretches stretches(code_, domains, value.domain, {value.instruction}, tables_, form_);
    stretches.ForEach([](int64_t, int64_t, int64_t) -> const double* { return nullptr; },
                      [&](const program::Evaluation& evaluation, int64_t row, int64_t, int64_t count) {
                        std::vector<double>& to = numbers[static_cast<std::size_t>(row)];
                        const double* values = evaluation.values(value.instruction);
                        to.insert(to.end(), values, values + count);
                        if (value.domain.axis == program::Axis::kOffset) std::reverse(to.end() - count, to.end());
                      });
    rows_.emplace_back();
    for (std::vector<double>& row : numbers) rows_.back().emplace_back(std::move(row));
  }
}

bool PairProgramSight::Hidden(int64_t b, int64_t h, int64_t i, int64_t j) const {
  thread_local std::vector<double> values;
  values.resize(instructions_.size() + given_.size());
  for (std::size_t x = 0; x < given_.size(); ++x) {
    const program::Axis axis = given_[x].domain.axis;
    const int64_t at = axis == program::Axis::kQuery    ? i
                       : axis == program::Axis::kKey    ? j
                       : axis == program::Axis::kOffset ? form_.PlaceOfOffset(j - i)
                                                        : 0;
    values[instructions_.size() + x] = RowOf(x, b, h)[at];
  }
  for (std::size_t x = 0; x < instructions_.size(); ++x) {
    const program::Instruction& instruction = code_[instructions_[x]];
    std::array<double, 8> operands{};
    for (std::size_t o = 0; o < operands_[x].size(); ++o) operands[o] = values[operands_[x][o]];
    const bool reads = instruction.operation == program::Operation::kRead || instruction.operation == program::Operation::kDot;
    values[x] = reads ? program::ReadBy(instruction, tables_, operands.data())
                      : program::Compute(instruction.operation, operands.data());
  }
  return values[result_] == 0;
}

Interval PairProgramSight::GivenOver(std::size_t given, const attention::PairBlock& pairs) const {
  const program::Domain& domain = given_[given].domain;
  Interval all = Interval::Nothing();
  for (int64_t h = pairs.heads.begin; h < (domain.head ? pairs.heads.end : pairs.heads.begin + 1); ++h) {
    const NumberRow& row = RowOf(given, pairs.b, h);
    const auto over = [&](int64_t first, int64_t last) { all = Hull(all, row.Over(first, last)); };
    switch (domain.axis) {
      case program::Axis::kQuery:
        over(pairs.queries.begin, pairs.queries.end - 1);
        break;
      case program::Axis::kKey:
        over(pairs.keys.begin, pairs.keys.end - 1);
        break;
      case program::Axis::kOffset:
        over(form_.PlaceOfOffset(pairs.keys.end - 1 - pairs.queries.begin),
             form_.PlaceOfOffset(pairs.keys.begin - (pairs.queries.end - 1)));
        break;
      default:
        over(0, 0);
        break;
    }
  }
  return all;
}

attention::Seen PairProgramSight::Judge(const attention::PairBlock& pairs) const {
  using attention::Seen;
  thread_local std::vector<Interval> values;
  values.resize(instructions_.size() + given_.size());
  for (std::size_t x = 0; x < given_.size(); ++x) values[instructions_.size() + x] = GivenOver(x, pairs);
  for (std::size_t x = 0; x < instructions_.size(); ++x) {
    std::array<Interval, 8> operands{};
    for (std::size_t o = 0; o < operands_[x].size(); ++o) operands[o] = values[operands_[x][o]];
    values[x] = program::IntervalOf(code_[instructions_[x]], operands.data(), tables_);
  }
  const Interval& result = values[result_];
  return result.always() ? Seen::kAll : result.never() ? Seen::kNone : Seen::kSome;
}

}  // namespace heed::position
