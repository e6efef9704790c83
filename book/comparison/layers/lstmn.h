#ifndef HEED_BOOK_COMPARISON_LAYERS_LSTMN_H_
#define HEED_BOOK_COMPARISON_LAYERS_LSTMN_H_

#include <algorithm>

#include "book/comparison/layers/lstm.h"
#include "book/comparison/layers/softmax.h"

namespace heed::lab {

// The long short-term memory-network of Cheng et al. 2016, section 3.2: a turn reads all states before it.
//   a_j = v . tanh(W_h h_j + W_x x_i + W_g g_{i-1}),  s = softmax(a_0..i-1),  g_i = sum_j s_j h_j,  m_i = sum_j s_j c_j
//   c_i = f * m_i + in * z,  h_i = out * tanh(c_i),  gates of W [g_i, x_i] in the order in, f, z, out
// Weights: W_h, W_x, W_g [width, width], v [width], W [4 * width, 2 * width].
struct Lstmn {
  LayerFacts Facts() const {
    LayerFacts facts = Lstm().Facts();
    facts.id = "lstmn";
    facts.name = "LSTMN";
    facts.multiply_adds = "(11 n - 3) d² + n d + 3 n (n - 1) d / 2";
    facts.memory = "3 n d + n + 4 d";
    facts.hops = "1";
    facts.path = PowerOfSizes{};
    facts.growth.push_back({Term::kScores, {.n = 2, .d = 1}});
    facts.growth.push_back({Term::kSums, {.n = 2, .d = 1}});
    return facts;
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    const int64_t d = shape.width;
    return {d * d, d * d, d * d, d, 8 * d * d};
  }

  template <class Scalar>
  Activations<Scalar> Run(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) const {
    const int64_t d = shape.width;
    Activations<Scalar> h(x.size()), c(x.size()), keys(x.size()), g(d), m(d);
    for (int64_t i = 0; i * d < static_cast<int64_t>(x.size()); ++i) {
      if (i > 0) Recall(shape, weights, &x[i * d], i, {h, c, keys, g, m});
      for (int64_t channel = 0; channel < d; ++channel) {
        const auto gate = [&](int64_t index) {
          const Scalar* row = &weights[4][(index * d + channel) * 2 * d];
          return Dot(Term::kProjections, Operand(row + d), Operand(&x[i * d]), d) +
                 Dot(Term::kRecurrence, Operand(row), Operand(g.data()), d);
        };
        const Scalar in = Sigmoid(gate(0)), forget = Sigmoid(gate(1)), candidate = Tanh(gate(2)), out = Sigmoid(gate(3));
        const Scalar cell = MultiplyAdd(Term::kElementwise, forget, m[channel], in * candidate);
        c[i * d + channel] = NewState(cell, i);
        h[i * d + channel] = NewState(out * Tanh(cell), i);
      }
    }
    return h;
  }

  // The longest way through a turn: W_h h, a sum, tanh, a score, softmax, a weighted sum, then a gate as in an LSTM.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const int64_t d = shape.width, pairs = n * (n - 1) / 2, first = 8 + CeilLog2(d);
    LayerNumbers numbers = Lstm().Expected(shape, n);
    numbers.Of(Term::kProjections) += (n - 1) * d * d;
    numbers.Of(Term::kRecurrence) += 2 * (n - 1) * d * d;
    numbers.Of(Term::kScores) = pairs * d;
    numbers.Of(Term::kSums) = 2 * pairs * d;
    numbers.operations.additions += (n - 1 + pairs) * d;
    numbers.operations.hyperbolic_tangents += pairs * d;
    AddSoftmax(numbers.operations, n - 1, pairs);
    numbers.rounds = 7;
    numbers.span = first;
    for (int64_t seen = 1; seen < n; ++seen) {
      numbers.rounds += seen > 1 ? 17 : 15;
      numbers.span += first + 8 + 2 * CeilLog2(d) + 3 * CeilLog2(seen);
    }
    numbers.memory = 3 * n * d + 2 * d + (n > 1 ? 2 * d + n - 1 : 0);
    numbers.path_length = numbers.longest_path = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

  int64_t LongestSum(const LayerShape& shape, int64_t length) const { return std::max(2 * shape.width, length); }

 private:
  // What is kept of the states, and what of them the turn goes on from.
  template <class Scalar>
  struct Memory {
    const Activations<Scalar>&h, &c;
    Activations<Scalar>&keys, &g, &m;  // keys: W_h h
  };

  // g and m of turn i, from the states before it.
  template <class Scalar>
  static void Recall(const LayerShape& shape, const LayerWeights<Scalar>& weights, const Scalar* input, int64_t i,
                     const Memory<Scalar>& memory) {
    const int64_t d = shape.width;
    Activations<Scalar> question(d), hidden(d), seen(i);
    for (int64_t channel = 0; channel < d; ++channel) {
      memory.keys[(i - 1) * d + channel] =
          Dot(Term::kRecurrence, Operand(&weights[0][channel * d]), Operand(&memory.h[(i - 1) * d]), d);
      question[channel] = Dot(Term::kProjections, Operand(&weights[1][channel * d]), Operand(input), d) +
                          Dot(Term::kRecurrence, Operand(&weights[2][channel * d]), Operand(memory.g.data()), d);
    }
    for (int64_t j = 0; j < i; ++j) {
      for (int64_t channel = 0; channel < d; ++channel) {
        hidden[channel] = Tanh(memory.keys[j * d + channel] + question[channel]);
      }
      seen[j] = Dot(Term::kScores, Operand(weights[3].data()), Operand(hidden.data()), d);
    }
    Softmax(seen);
    for (int64_t channel = 0; channel < d; ++channel) {
      memory.g[channel] = Dot(Term::kSums, Operand(seen.data()), Operand(&memory.h[channel], d), i);
      memory.m[channel] = Dot(Term::kSums, Operand(seen.data()), Operand(&memory.c[channel], d), i);
    }
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_LSTMN_H_
