#ifndef HEED_BOOK_COMPARISON_LAYERS_LSTM_H_
#define HEED_BOOK_COMPARISON_LAYERS_LSTM_H_

#include "book/comparison/layers/recurrence.h"

namespace heed::lab {

// Long short-term memory (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000). Gates in PyTorch's order:
// input i, forget f, candidate g, output o. A position's state is the pair of c and h.
//   c_t = f_t * c_{t-1} + i_t * g_t,  h_t = o_t * tanh(c_t)
struct Lstm {
  LayerFacts Facts() const {
    LayerFacts facts = RecurrentFacts("lstm", "LSTM", 4);
    facts.multiply_adds = "8 n d² + n d";
    facts.memory = "n d + d";
    facts.growth.push_back({Term::kElementwise, {.n = 1, .d = 1}});
    return facts;
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const { return RecurrentWeightSizes(shape, 4); }

  template <class Scalar>
  Activations<Scalar> Run(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) const {
    Activations<Scalar> cells(shape.width);
    return Recur(shape, weights, x, [&cells](const Turn<Scalar>& turn, int64_t channel) {
      const Scalar in = Sigmoid(turn.Gate(0, channel)), forget = Sigmoid(turn.Gate(1, channel));
      const Scalar candidate = Tanh(turn.Gate(2, channel)), out = Sigmoid(turn.Gate(3, channel));
      const Scalar cell = MultiplyAdd(Term::kElementwise, forget, cells[channel], in * candidate);
      cells[channel] = NewState(cell, turn.position);
      return out * Tanh(cell);
    });
  }

  // The longest way through a turn: a gate (product, sum, sigmoid), a product, a multiply-add (2), tanh, a product.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    LayerNumbers numbers = RecurrentNumbers(shape, n, 4, 7, 8);
    const int64_t cells = n * shape.width;
    numbers.Of(Term::kElementwise) = cells;
    numbers.operations = {
        .multiplications = 2 * cells, .additions = 4 * cells, .sigmoids = 3 * cells, .hyperbolic_tangents = 2 * cells};
    numbers.memory = (n + 1) * shape.width;
    return numbers;
  }

  int64_t LongestSum(const LayerShape& shape, int64_t) const { return 2 * shape.width; }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_LSTM_H_
