// What several layers and their formulas are made of.
#ifndef HEED_BOOK_COMPARISON_LAYERS_PARTS_H_
#define HEED_BOOK_COMPARISON_LAYERS_PARTS_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "book/comparison/layer.h"

namespace heed::lab {

// y = W x of as many rows as y has: one position's input or state times a matrix.
inline void Multiply(Term term, const Counted* weight, const Counted* x, int64_t inputs, std::span<Counted> y) {
  for (std::size_t row = 0; row < y.size(); ++row) {
    y[row] = Dot(term, Operand(weight + static_cast<int64_t>(row) * inputs), Operand(x), inputs);
  }
}

// The rows of `values`, which lie `stride` numbers apart, summed by weights: as many columns as y has.
inline void SumRows(std::span<const Counted> weights, const Counted* values, int64_t stride, std::span<Counted> y) {
  for (std::size_t c = 0; c < y.size(); ++c) {
    y[c] = Dot(Term::kSums, Operand(weights.data()), Operand(values + c, stride), std::ssize(weights));
  }
}

// Makes numbers what `position` holds from now on.
inline void KeepAsState(std::span<Counted> numbers, int64_t position) {
  for (Counted& number : numbers) number = NewState(number, position);
}

inline Counted PositivePart(const Counted& x) {
  const Counted both[] = {x, Counted(0.0)};
  return Max(std::span<const Counted>(both));
}

// In place. Of m scores: m - 1 comparisons, m subtractions, m exponentials, m - 1 additions, m divisions; over one score the
// reductions are no operation.
inline void Softmax(std::span<Counted> scores) {
  const Counted largest = Max(std::span<const Counted>(scores));
  for (Counted& score : scores) score = Exp(score - largest);
  const Counted sum = Sum(std::span<const Counted>(scores));
  for (Counted& score : scores) score = score / sum;
}

// Adds what `rows` softmaxes over `pairs` scores in all take.
inline void AddSoftmax(Operations& operations, int64_t rows, int64_t pairs) {
  operations.additions += 2 * pairs - rows;
  operations.comparisons += pairs - rows;
  operations.exponentials += pairs;
  operations.divisions += pairs;
}

// Hops of at most `reach` positions that cover a distance.
constexpr int64_t HopsOver(int64_t distance, int64_t reach) {
  if (distance == 0) return 0;
  return reach == 0 ? kNever : (distance + reach - 1) / reach;
}

// How many pairs (i, i + t step) with 1 <= t <= reach lie within `length` positions: the sum of length - t step.
constexpr int64_t PairsWithin(int64_t reach, int64_t step, int64_t length) {
  const int64_t farthest = std::min(reach, (length - 1) / step);
  return farthest * length - step * farthest * (farthest + 1) / 2;
}

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_PARTS_H_
