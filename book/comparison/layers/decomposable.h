#ifndef HEED_BOOK_COMPARISON_LAYERS_DECOMPOSABLE_H_
#define HEED_BOOK_COMPARISON_LAYERS_DECOMPOSABLE_H_

#include <algorithm>

#include "book/comparison/layer.h"
#include "book/comparison/layers/softmax.h"

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

  template <class Scalar>
  Activations<Scalar> Run(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) const {
    const int64_t d = shape.width, n = static_cast<int64_t>(x.size()) / d, head_width = d / shape.heads;
    Activations<Scalar> f(n * d), y(n * d), joined(2 * d);
    for (int64_t i = 0; i < n; ++i) Network(weights[0], weights[1], &x[i * d], d, d, &f[i * d]);
    for (int64_t i = 0; i < n; ++i) {
      std::copy_n(&x[i * d], d, joined.begin());
      for (int64_t head = 0; head < shape.heads; ++head) {
        const int64_t first = head * head_width;
        Activations<Scalar> seen(n);
        for (int64_t j = 0; j < n; ++j) {
          const int64_t offset = std::clamp(j - i, -shape.window, shape.window) + shape.window;
          seen[j] = Dot(Term::kScores, Operand(&f[i * d + first]), Operand(&f[j * d + first]), head_width) +
                    weights[2][head * (2 * shape.window + 1) + offset];
        }
        Softmax(seen);
        for (int64_t c = first; c < first + head_width; ++c) {
          joined[d + c] = Dot(Term::kSums, Operand(seen.data()), Operand(&x[c], d), n);
        }
      }
      Network(weights[3], weights[4], joined.data(), 2 * d, d, &y[i * d]);
      for (int64_t c = 0; c < d; ++c) y[i * d + c] = NewState(y[i * d + c], i);
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
    numbers.path_length = numbers.longest_path = numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

  int64_t LongestSum(const LayerShape& shape, int64_t length) const { return std::max(2 * shape.width, length); }

 private:
  // output = second max(0, first input)
  template <class Scalar>
  static void Network(const std::vector<Scalar>& first, const std::vector<Scalar>& second, const Scalar* input, int64_t inputs,
                      int64_t width, Scalar* output) {
    Activations<Scalar> hidden(width);
    for (int64_t c = 0; c < width; ++c) {
      const Scalar both[] = {Dot(Term::kProjections, Operand(&first[c * inputs]), Operand(input), inputs), Scalar(0.0)};
      hidden[c] = Max(std::span<const Scalar>(both));
    }
    for (int64_t c = 0; c < width; ++c) {
      output[c] = Dot(Term::kProjections, Operand(&second[c * width]), Operand(hidden.data()), width);
    }
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_DECOMPOSABLE_H_
