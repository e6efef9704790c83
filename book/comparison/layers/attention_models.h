// The attention models that came before the Transformer.
#ifndef HEED_BOOK_COMPARISON_LAYERS_ATTENTION_MODELS_H_
#define HEED_BOOK_COMPARISON_LAYERS_ATTENTION_MODELS_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "book/comparison/layers/parts.h"
#include "book/comparison/layers/recurrences.h"

namespace heed::lab {

// The decomposable attention of Parikh et al. 2016, sections 3.4 and 3.2, F and G of two layers with a ReLU between them, head
// by head as in heed's:
//   a_i = sum_j softmax_j(F(x_i) . F(x_j) + b_(j - i)) x_j,  y_i = G([x_i, a_i])
// Offsets are clipped at `window`. Weights: F's two [width, width], b [heads, 2 * window + 1], G's [width, 2 * width] and
// [width, width].
struct Decomposable {
  LayerFacts Facts() const {
    LayerFacts facts;
    facts.id = "decomposable";
    facts.name = "decomposable attention";
    facts.multiply_adds = "5 n d² (networks) + 2 n² d";
    facts.steps = facts.hops = facts.layers = "1";
    facts.memory = "2 n d + 2 d + max(n, d)";
    facts.growth = {{Term::kProjections, {.n = 1, .d = 2}}, {Term::kScores, {.n = 2, .d = 1}}, {Term::kSums, {.n = 2, .d = 1}}};
    facts.path = PowerOfSizes{};
    return facts;
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    const int64_t square = shape.width * shape.width;
    return {square, square, shape.heads * (2 * shape.window + 1), 2 * square, square};
  }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    const int64_t d = shape.width, n = static_cast<int64_t>(x.size()) / d, head_width = d / shape.heads;
    Activations f(n * d), y(n * d), joined(2 * d);
    for (int64_t i = 0; i < n; ++i) Network(weights[0], weights[1], x.subspan(i * d, d), std::span(f).subspan(i * d, d));
    for (int64_t i = 0; i < n; ++i) {
      const std::span<Counted> y_i = std::span(y).subspan(i * d, d);
      std::copy_n(&x[i * d], d, joined.begin());
      for (int64_t head = 0; head < shape.heads; ++head) {
        const int64_t first = head * head_width;
        Activations seen(n);
        for (int64_t j = 0; j < n; ++j) {
          const int64_t offset = std::clamp(j - i, -shape.window, shape.window) + shape.window;
          seen[j] = Dot(Term::kScores, Operand(&f[i * d + first]), Operand(&f[j * d + first]), head_width) +
                    weights[2][head * (2 * shape.window + 1) + offset];
        }
        Softmax(seen);
        SumRows(seen, &x[first], d, std::span(joined).subspan(d + first, head_width));
      }
      Network(weights[3], weights[4], joined, y_i);
      KeepAsState(y_i, i);
    }
    return y;
  }

  // F (a product, a maximum, a product), a score, a sum, softmax, a weighted sum, G.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const int64_t d = shape.width, h = shape.heads;
    LayerNumbers numbers;
    numbers.Of(Term::kProjections) = 5 * n * d * d;
    numbers.Of(Term::kScores) = numbers.Of(Term::kSums) = n * n * d;
    numbers.operations.additions = h * n * n;
    numbers.operations.comparisons = 2 * n * d;
    AddSoftmax(numbers.operations, h * n, h * n * n);
    numbers.sequential_steps = 1;
    numbers.rounds = n > 1 ? 14 : 12;
    numbers.span = 12 + 3 * CeilLog2(d) + CeilLog2(2 * d) + CeilLog2(d / h) + 3 * CeilLog2(n);
    numbers.memory = 2 * n * d + 2 * d + std::max(n, d);
    numbers.longest_sum = std::max(2 * d, n);
    numbers.path_length = numbers.longest_path = numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

 private:
  // output = second max(0, first input)
  static void Network(const std::vector<Counted>& first, const std::vector<Counted>& second, std::span<const Counted> input,
                      std::span<Counted> output) {
    Activations hidden(output.size());
    Multiply(Term::kProjections, first.data(), input.data(), std::ssize(input), hidden);
    std::ranges::transform(hidden, hidden.begin(), PositivePart);
    Multiply(Term::kProjections, second.data(), hidden.data(), std::ssize(hidden), output);
  }
};

// Of a model that attends over the states of an LSTM, with scores that grow as n^scores d.
inline LayerFacts FactsOverLstm(const char* id, const char* name, const char* multiply_adds, const char* steps,
                                const char* memory, double scores) {
  LayerFacts facts = Lstm().Facts();
  facts.id = id;
  facts.name = name;
  facts.multiply_adds = multiply_adds;
  facts.steps = steps;
  facts.memory = memory;
  facts.hops = "1";
  facts.path = PowerOfSizes{};
  facts.growth.insert(facts.growth.end(), {{Term::kScores, {.n = scores, .d = 1}}, {Term::kSums, {.n = 2, .d = 1}}});
  return facts;
}

// The embedding of Lin et al. 2017 given back to every step, H the states of an LSTM and r rows, each with its part of W_o:
//   s = W_s2 tanh(W_s1 H^T),  M_i = softmax(s_0..i) H_0..i,  y_i = h_i + [W_o1 M_i1, W_o2 M_i2, ...]
// A step's own M is what a causal layer needs; one for the whole sequence takes the last of them alone. Weights: W_x, W_h of
// the LSTM, W_s1 [width, width], W_s2 [r, width], W_o [width, width].
struct SelfAttentive {
  LayerFacts Facts() const {
    return FactsOverLstm("self-attentive", "self-attentive embedding (causal)", "10 n d² + (1 + r) n d + r n (n + 1) d / 2",
                         "n + 1", "2 n d + n (r + 1) + r d", 1);
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    const int64_t d = shape.width, r = shape.heads;
    return {4 * d * d, 4 * d * d, d * d, r * d, d * d};
  }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    const int64_t d = shape.width, r = shape.heads, n = static_cast<int64_t>(x.size()) / d;
    const Activations h = Lstm().Run(shape, weights, x);
    Activations scores(n * r);
    for (int64_t j = 0; j < n; ++j) {
      Activations hidden(d);
      Multiply(Term::kProjections, weights[2].data(), &h[j * d], d, hidden);
      for (Counted& number : hidden) number = Tanh(number);
      for (int64_t row = 0; row < r; ++row) {
        scores[row * n + j] = Dot(Term::kScores, Operand(&weights[3][row * d]), Operand(hidden.data()), d);
      }
    }
    Activations y(n * d), embedding(r * d);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t row = 0; row < r; ++row) {
        Activations seen(scores.begin() + row * n, scores.begin() + row * n + i + 1);
        Softmax(seen);
        SumRows(seen, h.data(), d, std::span(embedding).subspan(row * d, d));
      }
      for (int64_t c = 0; c < d; ++c) {
        const Counted given = Dot(Term::kProjections, Operand(&weights[4][c * d]), Operand(&embedding[c * r / d * d]), d);
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
    numbers.longest_sum = std::max(2 * d, n);
    numbers.path_length = numbers.longest_path = std::min<int64_t>(n - 1, 1);
    return numbers;
  }
};

// The long short-term memory-network of Cheng et al. 2016, section 3.2: a turn reads all states before it.
//   a_j = v . tanh(W_h h_j + W_x x_i + W_g g_{i-1}),  s = softmax(a_0..i-1),  g_i = sum_j s_j h_j,  m_i = sum_j s_j c_j
//   c_i = f * m_i + in * z,  h_i = out * tanh(c_i),  gates of W [g_i, x_i] in the order in, f, z, out
// Weights: W_h, W_x, W_g [width, width], v [width], W [4 * width, 2 * width].
struct Lstmn {
  LayerFacts Facts() const {
    return FactsOverLstm("lstmn", "LSTMN", "(11 n - 3) d² + n d + 3 n (n - 1) d / 2", "n", "3 n d + n + 4 d", 2);
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    const int64_t d = shape.width;
    return {d * d, d * d, d * d, d, 8 * d * d};
  }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    const int64_t d = shape.width;
    Activations h(x.size()), c(x.size()), keys(x.size()), g(d), m(d);
    for (int64_t i = 0; i * d < static_cast<int64_t>(x.size()); ++i) {
      if (i > 0) Recall(weights, &x[i * d], i, {h, c, keys, g, m});
      for (int64_t channel = 0; channel < d; ++channel) {
        const auto gate = [&](int64_t index) {
          const Counted* row = &weights[4][(index * d + channel) * 2 * d];
          return Dot(Term::kProjections, Operand(row + d), Operand(&x[i * d]), d) +
                 Dot(Term::kRecurrence, Operand(row), Operand(g.data()), d);
        };
        const Counted in = Sigmoid(gate(0)), forget = Sigmoid(gate(1)), candidate = Tanh(gate(2)), out = Sigmoid(gate(3));
        const Counted cell = MultiplyAdd(Term::kElementwise, forget, m[channel], in * candidate);
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
    numbers.longest_sum = std::max(2 * d, n);
    numbers.path_length = numbers.longest_path = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

 private:
  // What is kept of the states, and what of them the turn goes on from.
  struct Memory {
    const Activations &h, &c;
    Activations &keys, &g, &m;  // keys: W_h h
  };

  // g and m of turn i, from the states before it.
  static void Recall(const LayerWeights& weights, const Counted* input, int64_t i, const Memory& memory) {
    const auto d = static_cast<int64_t>(memory.g.size());
    Activations question(d), hidden(d), seen(i);
    const auto product = [&](Term term, int64_t matrix, const Counted* of, int64_t channel) {
      return Dot(term, Operand(&weights[matrix][channel * d]), Operand(of), d);
    };
    for (int64_t channel = 0; channel < d; ++channel) {
      memory.keys[(i - 1) * d + channel] = product(Term::kRecurrence, 0, &memory.h[(i - 1) * d], channel);
      question[channel] =
          product(Term::kProjections, 1, input, channel) + product(Term::kRecurrence, 2, memory.g.data(), channel);
    }
    for (int64_t j = 0; j < i; ++j) {
      for (int64_t channel = 0; channel < d; ++channel) {
        hidden[channel] = Tanh(memory.keys[j * d + channel] + question[channel]);
      }
      seen[j] = Dot(Term::kScores, Operand(weights[3].data()), Operand(hidden.data()), d);
    }
    Softmax(seen);
    SumRows(seen, memory.h.data(), d, memory.g);
    SumRows(seen, memory.c.data(), d, memory.m);
  }
};

// The intra-decoder attention of Paulus et al. 2018, section 2.2, h the states of an LSTM:
//   a_i = softmax_j<i(h_i . W h_j),  d_i = sum_j a_ij h_j,  y_i = U [h_i, d_i]
// Weights: W_x, W_h of the LSTM, W [width, width], U [width, 2 * width].
struct IntraDecoder {
  LayerFacts Facts() const {
    return FactsOverLstm("intra-decoder", "intra-decoder attention", "11 n d² + n d + n (n - 1) d", "n + 1", "3 n d + n + 2 d",
                         2);
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    const int64_t square = shape.width * shape.width;
    return {4 * square, 4 * square, square, 2 * square};
  }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    const int64_t d = shape.width;
    const Activations h = Lstm().Run(shape, weights, x);
    Activations keys(x.size()), y(x.size()), joined(2 * d);
    for (int64_t i = 0; i * d < static_cast<int64_t>(x.size()); ++i) {
      Activations seen(i);
      for (int64_t j = 0; j < i; ++j) seen[j] = Dot(Term::kScores, Operand(&h[i * d]), Operand(&keys[j * d]), d);
      if (i > 0) Softmax(seen);
      std::copy_n(&h[i * d], d, joined.begin());
      if (i > 0) SumRows(seen, h.data(), d, std::span(joined).subspan(d));
      Multiply(Term::kProjections, weights[2].data(), &h[i * d], d, std::span(keys).subspan(i * d, d));
      const std::span<Counted> y_i = std::span(y).subspan(i * d, d);
      Multiply(Term::kProjections, weights[3].data(), joined.data(), 2 * d, y_i);
      KeepAsState(y_i, i);
    }
    return y;
  }

  // Behind the last state: a score, softmax, a weighted sum, a product; alone, the product.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const int64_t d = shape.width, pairs = n * (n - 1) / 2;
    LayerNumbers numbers = Lstm().Expected(shape, n);
    numbers.Of(Term::kProjections) += 3 * n * d * d;
    numbers.Of(Term::kScores) = numbers.Of(Term::kSums) = pairs * d;
    AddSoftmax(numbers.operations, n - 1, pairs);
    numbers.sequential_steps = n + 1;
    numbers.rounds += n > 2 ? 8 : n > 1 ? 6 : 1;
    numbers.span += 1 + CeilLog2(2 * d) + (n > 1 ? 5 + CeilLog2(d) + 3 * CeilLog2(n - 1) : 0);
    numbers.memory = 3 * n * d + 2 * d + n - 1;
    numbers.longest_sum = std::max(2 * d, n);
    numbers.path_length = numbers.longest_path = std::min<int64_t>(n - 1, 1);
    return numbers;
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_ATTENTION_MODELS_H_
