#include "program/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "program/operation.h"

namespace heed::program {

double ReadBy(const Instruction& instruction, const TableReaders& tables, const double* indices) {
  const Reading& reading = instruction.reading;
  const int count = static_cast<int>(instruction.operands.size());
  const TableReader& a = tables[static_cast<std::size_t>(reading.place)];
  if (instruction.operation != Operation::kDot) return a.Read(indices, count);
  const TableReader& b = tables[static_cast<std::size_t>(reading.other)];
  Entry row_a = a.At(indices, reading.indices), row_b = b.At(indices + reading.indices, count - reading.indices);
  if (!row_a.inside || !row_b.inside) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (int64_t x = 0; x < a.extent(a.dimensions() - 1); ++x) {
    row_a.index[3] = row_b.index[3] = x;
    sum += a.Number(row_a) * b.Number(row_b);
  }
  return sum;
}

Evaluation::Evaluation(const Code& code, const std::vector<Domain>& domains, std::vector<int> instructions,
                       const TableReaders& tables)
    : code_(code),
      domains_(domains),
      instructions_(std::move(instructions)),
      tables_(tables),
      place_(static_cast<std::size_t>(code.size()), -1),
      values_(instructions_.size() * kMost) {
  for (std::size_t x = 0; x < instructions_.size(); ++x)
    place_[static_cast<std::size_t>(instructions_[x])] = static_cast<int64_t>(x);
}

void Evaluation::Run(const Stretch& stretch) {
  const bool elsewhere = !last_ || stretch.first != last_->first || stretch.count != last_->count;
  const bool other_row = !last_ || stretch.b != last_->b, other_head = !last_ || stretch.h != last_->h;
  last_ = stretch;
  Stretch one = stretch;
  one.count = std::min<int64_t>(1, stretch.count);
  for (std::size_t x = 0; x < instructions_.size(); ++x) {
    const Domain& domain = domains_[static_cast<std::size_t>(instructions_[x])];
    if (!elsewhere && !(other_row && domain.batch) && !(other_head && domain.head)) continue;
    double* values = values_.data() + static_cast<int64_t>(x) * kMost;
    const bool once = domain.axis == Axis::kNone;
    Compute(code_[instructions_[x]], once ? one : stretch, values);
    if (once) std::fill(values + one.count, values + stretch.count, values[0]);
  }
}

void Evaluation::Leaf(Operation operation, const Stretch& stretch, double* values) const {
  using enum Operation;
  const bool along_keys = stretch.axis == Axis::kKey || stretch.axis == Axis::kOffset;
  const auto fill = [&](double number) { std::fill_n(values, stretch.count, number); };
  const auto count_up = [&](bool counts) {
    counts ? std::iota(values, values + stretch.count, static_cast<double>(stretch.first)) : fill(0);
  };
  switch (operation) {
    case kBatch:
      return fill(static_cast<double>(stretch.b));
    case kHead:
      return fill(static_cast<double>(stretch.h));
    // An offset stands for the pair of query 0 and that key.
    case kQuery:
      return count_up(stretch.axis == Axis::kQuery);
    case kKey:
      return count_up(along_keys);
    case kQueryOrigin:
      return fill(stretch.query_origin);
    case kKeyOrigin:
      return fill(stretch.key_origin);
    case kQueryPosition:
      if (stretch.axis == Axis::kQuery) std::copy_n(stretch.query_positions + stretch.first, stretch.count, values);
      return;
    case kKeyPosition:
      if (stretch.axis == Axis::kKey) std::copy_n(stretch.key_positions + stretch.first, stretch.count, values);
      return;
    case kGradient:
      std::copy_n(stretch.gradients, stretch.count, values);
      return;
    default:
      return;
  }
}

void Evaluation::Compute(const Instruction& instruction, const Stretch& stretch, double* values) const {
  using enum Operation;
  const int64_t count = stretch.count;
  const std::size_t operands = instruction.operands.size();
  std::array<const double*, 8> x{};
  for (std::size_t o = 0; o < operands; ++o) x[o] = this->values(instruction.operands[o]);
  const auto each = [&](const auto& compute) {
    for (int64_t n = 0; n < count; ++n) values[n] = compute(n);
  };
  switch (instruction.operation) {
    case kConstant:
      std::fill_n(values, count, instruction.number);
      return;
    case kRead:
    case kDot:
      return each([&](int64_t n) {
        std::array<double, 8> indices{};
        for (std::size_t o = 0; o < operands; ++o) indices[o] = x[o][n];
        return ReadBy(instruction, tables_, indices.data());
      });
    // Those that a compiler makes vectors of.
    case kAdd:
      return each([&](int64_t n) { return x[0][n] + x[1][n]; });
    case kSubtract:
      return each([&](int64_t n) { return x[0][n] - x[1][n]; });
    case kMultiply:
      return each([&](int64_t n) { return x[0][n] * x[1][n]; });
    case kDivide:
      return each([&](int64_t n) { return x[0][n] / x[1][n]; });
    case kNegate:
      return each([&](int64_t n) { return -x[0][n]; });
    case kAbsolute:
      return each([&](int64_t n) { return std::abs(x[0][n]); });
    default:
      break;
  }
  if (FactsOf(instruction.operation).operands == 0) return Leaf(instruction.operation, stretch, values);
  each([&](int64_t n) {
    const std::array<double, 3> numbers{x[0][n], operands > 1 ? x[1][n] : 0, operands > 2 ? x[2][n] : 0};
    return program::Compute(instruction.operation, numbers.data());
  });
}

}  // namespace heed::program
