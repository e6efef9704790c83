// Recurrent layers: one turn after the other, each from the input and the state before; linear ones by a scan too.
#ifndef HEED_BOOK_COMPARISON_LAYERS_RECURRENCES_H_
#define HEED_BOOK_COMPARISON_LAYERS_RECURRENCES_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "book/comparison/layers/parts.h"

namespace heed::lab {

// What a cell's gates get in one turn. Weights are two matrices [gates * width, width], of the input and of the state.
struct Turn {
  const LayerShape& shape;
  const LayerWeights& weights;
  int64_t position;
  const Counted *input, *before;  // x_i and h_{i-1}, [width]

  Counted FromInput(int64_t gate, int64_t channel) const {
    return Dot(Term::kProjections, Row(0, gate, channel), Operand(input), shape.width);
  }
  Counted FromState(int64_t gate, int64_t channel) const {
    return Dot(Term::kRecurrence, Row(1, gate, channel), Operand(before), shape.width);
  }
  Counted Gate(int64_t gate, int64_t channel) const { return FromInput(gate, channel) + FromState(gate, channel); }

 private:
  Operand Row(int64_t matrix, int64_t gate, int64_t channel) const {
    return Operand(&weights[matrix][(gate * shape.width + channel) * shape.width]);
  }
};

// h_i, channel by channel, from cell(turn, channel); h_{-1} = 0 is multiplied like every other state.
template <class Cell>
Activations Recur(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x, const Cell& cell) {
  const int64_t width = shape.width, length = static_cast<int64_t>(x.size()) / width;
  const std::vector<Counted> zero(width);
  Activations h(x.size());
  for (int64_t i = 0; i < length; ++i) {
    const Turn turn{shape, weights, i, &x[i * width], i == 0 ? zero.data() : &h[(i - 1) * width]};
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
  numbers.longest_sum = 2 * d;
  numbers.path_length = numbers.longest_path = n - 1;
  numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
  return numbers;
}

// h_i = tanh(W_x x_i + W_h h_{i-1}).
struct Rnn {
  LayerFacts Facts() const { return RecurrentFacts("rnn", "RNN", 1); }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const { return RecurrentWeightSizes(shape, 1); }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    return Recur(shape, weights, x, [](const Turn& turn, int64_t channel) { return Tanh(turn.Gate(0, channel)); });
  }

  // A turn is a product (1 + log2 d), a sum and a hyperbolic tangent.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    LayerNumbers numbers = RecurrentNumbers(shape, n, 1, 3, 3);
    numbers.operations.additions = numbers.operations.hyperbolic_tangents = n * shape.width;
    return numbers;
  }
};

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

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    return Recur(shape, weights, x, [](const Turn& turn, int64_t channel) {
      const Counted reset = Sigmoid(turn.Gate(0, channel)), update = Sigmoid(turn.Gate(1, channel));
      const Counted candidate =
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
};

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

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    Activations cells(shape.width);
    return Recur(shape, weights, x, [&cells](const Turn& turn, int64_t channel) {
      const Counted in = Sigmoid(turn.Gate(0, channel)), forget = Sigmoid(turn.Gate(1, channel));
      const Counted candidate = Tanh(turn.Gate(2, channel)), out = Sigmoid(turn.Gate(3, channel));
      const Counted cell = MultiplyAdd(Term::kElementwise, forget, cells[channel], in * candidate);
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
};

// h_i = a_i * h_{i-1} + b_i with gates that see their own input only: a_i = sigmoid(W_a x_i), b_i = (1 - a_i) * (W_b x_i).
// Two turns in a row are again a turn, (a, b) after (a', b') being (a a', a b' + b), so all of them can be had by a prefix
// scan: here that of Hillis and Steele 1986, in which distances double and every position goes on at once (Martin and Cundy
// 2018 for its use in recurrent networks). Weights: W_a, W_b [width (output), width (input)].
struct LinearRecurrence {
  bool parallel;  // by a scan instead of one position after the other

  LayerFacts Facts() const {
    LayerFacts facts;
    facts.id = parallel ? "linear-recurrence-scan" : "linear-recurrence";
    facts.name = parallel ? "linear recurrence (scan)" : "linear recurrence";
    facts.causal = true;
    facts.multiply_adds = parallel ? "2 n d² + (n ⌈log2 n⌉ - 2^⌈log2 n⌉ + 1) d" : "2 n d² + (n - 1) d";
    facts.steps = parallel ? "⌈log2 n⌉" : "n";
    facts.memory = parallel ? "2 n d" : "n d";
    facts.hops = parallel ? "ones in n - 1" : "n - 1";
    facts.layers = "1";
    facts.growth = {{Term::kProjections, {.n = 1, .d = 2}},
                    {Term::kRecurrence, {.n = 1, .d = 1, .k = 0, .times_log_n = parallel}}};
    if (!parallel) facts.path = PowerOfSizes{.n = 1};
    return facts;
  }

  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    return {shape.width * shape.width, shape.width * shape.width};
  }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    return parallel ? Scan(shape, weights, x) : OneAfterTheOther(shape, weights, x);
  }

  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const int64_t d = shape.width, doublings = CeilLog2(n), covered = int64_t{1} << doublings;
    const int64_t combined = parallel ? n * doublings - covered + 1 : n - 1;
    const int64_t decays_combined = parallel && n > 1 ? n * (doublings - 1) - covered + 2 : 0;
    const int64_t turns = parallel ? doublings : n - 1;
    LayerNumbers numbers;
    numbers.Of(Term::kProjections) = 2 * n * d * d;
    numbers.Of(Term::kRecurrence) = combined * d;
    numbers.operations = {.multiplications = (n + decays_combined) * d, .additions = n * d, .sigmoids = n * d};
    numbers.sequential_steps = parallel ? std::max<int64_t>(doublings, 1) : n;
    numbers.rounds = 4 + turns;  // the gates: a product, sigmoid, difference, product; then multiply-adds
    numbers.span = 4 + CeilLog2(d) + 2 * turns;
    numbers.memory = (parallel ? 2 : 1) * n * d;
    numbers.longest_sum = std::max(d, n);  // a state is a sum of one product for each position before it
    // Hops are powers of two: as many as n - 1 has ones, at most as many as a number below n can have.
    numbers.path_length = parallel ? std::popcount(static_cast<uint64_t>(n - 1)) : n - 1;
    numbers.longest_path = parallel ? std::bit_width(static_cast<uint64_t>(n)) - 1 : n - 1;
    numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

 private:
  struct Gates {
    Counted decay, entry;
  };

  static Gates GatesOf(const LayerShape& shape, const LayerWeights& weights, const Counted* input, int64_t channel) {
    const auto product = [&](int64_t matrix) {
      return Dot(Term::kProjections, Operand(&weights[matrix][channel * shape.width]), Operand(input), shape.width);
    };
    const Counted decay = Sigmoid(product(0));
    return {decay, (Counted(1.0) - decay) * product(1)};
  }

  static Activations OneAfterTheOther(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) {
    Activations h(x.size());
    const int64_t width = shape.width;
    for (int64_t at = 0; at < static_cast<int64_t>(x.size()); ++at) {
      const int64_t position = at / width;
      const auto [decay, entry] = GatesOf(shape, weights, &x[position * width], at % width);
      const Counted state = position == 0 ? entry : MultiplyAdd(Term::kRecurrence, decay, h[at - width], entry);
      h[at] = NewState(state, position);
    }
    return h;
  }

  static Activations Scan(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) {
    const int64_t width = shape.width, size = static_cast<int64_t>(x.size());
    Activations decays(size), h(size);
    for (int64_t at = 0; at < size; ++at) {
      const auto [decay, entry] = GatesOf(shape, weights, &x[at / width * width], at % width);
      decays[at] = decay;
      h[at] = entry;
    }
    // `shift` in numbers, not positions. From the end, so that each reads what the others held before this doubling.
    for (int64_t shift = width; shift < size; shift *= 2) {
      for (int64_t at = size - 1; at >= shift; --at) {
        const Counted state = MultiplyAdd(Term::kRecurrence, decays[at], h[at - shift], h[at]);
        // Once it covers everything back to the first position, a decay is not needed any more.
        if (at / width >= 2 * shift / width) decays[at] = NewState(decays[at] * decays[at - shift], at / width);
        h[at] = NewState(state, at / width);
      }
    }
    for (int64_t at = 0; at < width; ++at) h[at] = NewState(h[at], 0);  // the others have become states on the way
    return h;
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_RECURRENCES_H_
