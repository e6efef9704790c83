// What recurrent layers share: one turn after the other, each from the input and the state before.
#ifndef HEED_BOOK_COMPARISON_LAYERS_RECURRENCE_H_
#define HEED_BOOK_COMPARISON_LAYERS_RECURRENCE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "book/comparison/layer.h"

namespace heed::lab {

// What a cell's gates get in one turn. Weights are two matrices [gates * width, width], of the input and of the state.
template <class Scalar>
struct Turn {
  const LayerShape& shape;
  const LayerWeights<Scalar>& weights;
  int64_t position;
  const Scalar *input, *before;  // x_i and h_{i-1}, [width]

  Scalar FromInput(int64_t gate, int64_t channel) const {
    return Dot(Term::kProjections, Row(0, gate, channel), Operand(input), shape.width);
  }
  Scalar FromState(int64_t gate, int64_t channel) const {
    return Dot(Term::kRecurrence, Row(1, gate, channel), Operand(before), shape.width);
  }
  Scalar Gate(int64_t gate, int64_t channel) const { return FromInput(gate, channel) + FromState(gate, channel); }

 private:
  Operand<Scalar> Row(int64_t matrix, int64_t gate, int64_t channel) const {
    return Operand(&weights[matrix][(gate * shape.width + channel) * shape.width]);
  }
};

// h_i, channel by channel, from cell(turn, channel); h_{-1} = 0 is multiplied like every other state.
template <class Scalar, class Cell>
Activations<Scalar> Recur(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x,
                          const Cell& cell) {
  const int64_t width = shape.width, length = static_cast<int64_t>(x.size()) / width;
  const std::vector<Scalar> zero(width);
  Activations<Scalar> h(x.size());
  for (int64_t i = 0; i < length; ++i) {
    const Turn<Scalar> turn{shape, weights, i, &x[i * width], i == 0 ? zero.data() : &h[(i - 1) * width]};
    for (int64_t channel = 0; channel < width; ++channel) h[i * width + channel] = NewState(cell(turn, channel), i);
  }
  return h;
}

inline std::vector<int64_t> RecurrentWeightSizes(const LayerShape& shape, int64_t gates) {
  const int64_t size = gates * shape.width * shape.width;
  return {size, size};
}

inline LayerFacts RecurrentFacts(const std::string& id, const std::string& name, int64_t gates) {
  LayerFacts facts;
  facts.id = id;
  facts.name = name;
  facts.causal = true;
  facts.multiply_adds = std::to_string(2 * gates) + " n d²";
  facts.steps = "n";
  facts.memory = "n d";
  facts.hops = "n - 1";
  facts.layers = "1";
  facts.growth = {{Term::kProjections, {.n = 1, .d = 2}}, {Term::kRecurrence, {.n = 1, .d = 2}}};
  facts.path = PowerOfSizes{.n = 1};
  return facts;
}

// The products with both matrices, steps and paths; a turn takes `rounds` and a span of `span` beside the tree of a product.
inline LayerNumbers RecurrentNumbers(const LayerShape& shape, int64_t n, int64_t gates, int64_t rounds, int64_t span) {
  const int64_t d = shape.width;
  LayerNumbers numbers;
  numbers.Of(Term::kProjections) = numbers.Of(Term::kRecurrence) = gates * n * d * d;
  numbers.sequential_steps = n;
  numbers.rounds = n * rounds;
  numbers.span = n * (span + CeilLog2(d));
  numbers.memory = n * d;
  numbers.path_length = numbers.longest_path = n - 1;
  numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
  return numbers;
}

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_RECURRENCE_H_
