#ifndef HEED_BOOK_COMPARISON_LAYERS_SELF_ATTENTIVE_H_
#define HEED_BOOK_COMPARISON_LAYERS_SELF_ATTENTIVE_H_

#include <algorithm>

#include "book/comparison/layers/lstm.h"
#include "book/comparison/layers/softmax.h"

namespace heed::lab {

// The embedding of Lin et al. 2017 given back to every step, H the states of an LSTM and r rows, each with its part of W_o:
//   s = W_s2 tanh(W_s1 H^T),  M_i = softmax(s_0..i) H_0..i,  y_i = h_i + [W_o1 M_i1, W_o2 M_i2, ...]
// A step's own M is what a causal layer needs; one for the whole sequence takes the last of them alone. Weights: W_x, W_h of
// the LSTM, W_s1 [width, width], W_s2 [r, width], W_o [width, width].
struct SelfAttentive {
  LayerFacts Facts() const {
    LayerFacts facts = Lstm().Facts();
    facts.id = "self-attentive";
    facts.name = "self-attentive embedding (causal)";
    facts.multiply_adds = "10 n d² + (1 + r) n d + r n (n + 1) d / 2";
    facts.steps = "n + 1";
    facts.memory = "2 n d + n (r + 1) + r d";
    facts.hops = "1";
    facts.path = PowerOfSizes{};
    facts.growth.push_back({Term::kScores, {.n = 1, .d = 1}});
    facts.growth.push_back({Term::kSums, {.n = 2, .d = 1}});
    return facts;
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    const int64_t d = shape.width, r = shape.heads;
    return {4 * d * d, 4 * d * d, d * d, r * d, d * d};
  }

  template <class Scalar>
  Activations<Scalar> Run(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) const {
    const int64_t d = shape.width, r = shape.heads, n = static_cast<int64_t>(x.size()) / d;
    const Activations<Scalar> h = Lstm().Run(shape, weights, x);
    Activations<Scalar> scores(n * r);
    for (int64_t j = 0; j < n; ++j) {
      Activations<Scalar> hidden(d);
      for (int64_t c = 0; c < d; ++c) {
        hidden[c] = Tanh(Dot(Term::kProjections, Operand(&weights[2][c * d]), Operand(&h[j * d]), d));
      }
      for (int64_t row = 0; row < r; ++row) {
        scores[row * n + j] = Dot(Term::kScores, Operand(&weights[3][row * d]), Operand(hidden.data()), d);
      }
    }
    Activations<Scalar> y(n * d), embedding(r * d);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t row = 0; row < r; ++row) {
        Activations<Scalar> seen(scores.begin() + row * n, scores.begin() + row * n + i + 1);
        Softmax(seen);
        for (int64_t c = 0; c < d; ++c) {
          embedding[row * d + c] = Dot(Term::kSums, Operand(seen.data()), Operand(&h[c], d), i + 1);
        }
      }
      for (int64_t c = 0; c < d; ++c) {
        const Scalar given = Dot(Term::kProjections, Operand(&weights[4][c * d]), Operand(&embedding[c * r / d * d]), d);
        y[i * d + c] = NewState(h[i * d + c] + given, i);
      }
    }
    return y;
  }

  // Behind the last state: a product, tanh, a score, softmax, a weighted sum, a product, a sum.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const int64_t d = shape.width, r = shape.heads, pairs = r * n * (n + 1) / 2;
    LayerNumbers numbers = Lstm().Expected(shape, n);
    numbers.Of(Term::kProjections) += 2 * n * d * d;
    numbers.Of(Term::kScores) = r * n * d;
    numbers.Of(Term::kSums) = pairs * d;
    numbers.operations.hyperbolic_tangents += n * d;
    numbers.operations.additions += n * d;
    AddSoftmax(numbers.operations, r * n, pairs);
    numbers.sequential_steps = n + 1;
    numbers.rounds += n > 1 ? 11 : 9;
    numbers.span += 9 + 3 * CeilLog2(d) + 3 * CeilLog2(n);
    numbers.memory = 2 * n * d + n * (r + 1) + r * d;
    numbers.path_length = numbers.longest_path = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

  int64_t LongestSum(const LayerShape& shape, int64_t length) const { return std::max(2 * shape.width, length); }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_SELF_ATTENTIVE_H_
