#ifndef HEED_BOOK_COMPARISON_LAYERS_SOFTMAX_H_
#define HEED_BOOK_COMPARISON_LAYERS_SOFTMAX_H_

#include <span>

#include "book/comparison/numbers.h"

namespace heed::lab {

// In place. Of m scores: m - 1 comparisons, m subtractions, m exponentials, m - 1 additions, m divisions; over one score the
// reductions are no operation.
template <class Scores>
void Softmax(Scores& scores) {
  using Scalar = typename Scores::value_type;
  const Scalar largest = Max(std::span<const Scalar>(scores));
  for (Scalar& score : scores) score = Exp(score - largest);
  const Scalar sum = Sum(std::span<const Scalar>(scores));
  for (Scalar& score : scores) score = score / sum;
}

// Adds what `rows` softmaxes over `pairs` scores in all take.
inline void AddSoftmax(Operations& operations, int64_t rows, int64_t pairs) {
  operations.additions += 2 * pairs - rows;
  operations.comparisons += pairs - rows;
  operations.exponentials += pairs;
  operations.divisions += pairs;
}

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_SOFTMAX_H_
