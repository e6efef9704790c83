#ifndef HEED_BOOK_COMPARISON_LAYERS_GRU_H_
#define HEED_BOOK_COMPARISON_LAYERS_GRU_H_

#include "book/comparison/layers/recurrence.h"

namespace heed::lab {

// The gated recurrent unit of Cho et al. 2014 in the variant of PyTorch and cuDNN, which resets the product with the state and
// not the state. Gates in PyTorch's order: reset r, update z, candidate.
//   c_i = tanh(W_xc x_i + r_i * (W_hc h_{i-1})),  h_i = c_i + z_i * (h_{i-1} - c_i)
struct Gru {
  LayerFacts Facts() const {
    LayerFacts facts = RecurrentFacts("gru", "GRU", 3);
    facts.multiply_adds = "6 n d² + 2 n d";
    facts.growth.push_back({Term::kElementwise, {.n = 1, .d = 1}});
    return facts;
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const { return RecurrentWeightSizes(shape, 3); }

  template <class Scalar>
  Activations<Scalar> Run(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) const {
    return Recur(shape, weights, x, [](const Turn<Scalar>& turn, int64_t channel) {
      const Scalar reset = Sigmoid(turn.Gate(0, channel)), update = Sigmoid(turn.Gate(1, channel));
      const Scalar candidate =
          Tanh(MultiplyAdd(Term::kElementwise, reset, turn.FromState(2, channel), turn.FromInput(2, channel)));
      return MultiplyAdd(Term::kElementwise, update, turn.before[channel] - candidate, candidate);
    });
  }

  // The longest way through a turn: the reset gate (product, sum, sigmoid), a multiply-add (2), tanh, a difference, another
  // multiply-add (2).
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    LayerNumbers numbers = RecurrentNumbers(shape, n, 3, 7, 9);
    const int64_t cells = n * shape.width;
    numbers.Of(Term::kElementwise) = 2 * cells;
    numbers.operations = {.additions = 3 * cells, .sigmoids = 2 * cells, .hyperbolic_tangents = cells};
    return numbers;
  }

  int64_t LongestSum(const LayerShape& shape, int64_t) const { return 2 * shape.width; }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_GRU_H_
