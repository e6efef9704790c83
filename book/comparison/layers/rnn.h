#ifndef HEED_BOOK_COMPARISON_LAYERS_RNN_H_
#define HEED_BOOK_COMPARISON_LAYERS_RNN_H_

#include "book/comparison/layers/recurrence.h"

namespace heed::lab {

// h_i = tanh(W_x x_i + W_h h_{i-1}).
struct Rnn {
  LayerFacts Facts() const { return RecurrentFacts("rnn", "RNN", 1); }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const { return RecurrentWeightSizes(shape, 1); }

  template <class Scalar>
  Activations<Scalar> Run(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) const {
    return Recur(shape, weights, x, [](const Turn<Scalar>& turn, int64_t channel) { return Tanh(turn.Gate(0, channel)); });
  }

  // A turn is a product (1 + log2 d), a sum and a hyperbolic tangent.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    LayerNumbers numbers = RecurrentNumbers(shape, n, 1, 3, 3);
    numbers.operations.additions = numbers.operations.hyperbolic_tangents = n * shape.width;
    return numbers;
  }

  int64_t LongestSum(const LayerShape& shape, int64_t) const { return 2 * shape.width; }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_RNN_H_
