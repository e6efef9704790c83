#ifndef HEED_BOOK_COMPARISON_LAYERS_ATTENTION_H_
#define HEED_BOOK_COMPARISON_LAYERS_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "book/comparison/layers/parts.h"

namespace heed::lab {

// W_o applied to the heads' softmax(Q K^T / sqrt(head width)) V side by side, over the keys that a query sees. The weights of
// one query of one head are all that is kept of the matrix of weights, as in heed's kernels. Weights: W_q, W_k, W_v, W_o
// [width (output), width (input)].
struct Attention {
  enum class Sees { kAll, kEarlier, kWindow };
  Sees sees;

  LayerFacts Facts() const {
    LayerFacts facts;
    facts.id = "attention";
    facts.name = "self-attention";
    facts.multiply_adds = "4 n d² (projections) + 2 n² d";
    facts.steps = "1";
    facts.memory = "4 n d + n";
    facts.hops = facts.layers = "1";
    PowerOfSizes pairs{.n = 2, .d = 1};
    facts.path = PowerOfSizes{};
    if (sees == Sees::kEarlier) {
      facts.id += "-causal";
      facts.name += " (causal)";
      facts.causal = true;
      facts.multiply_adds = "4 n d² (projections) + n (n + 1) d";
    } else if (sees == Sees::kWindow) {
      facts.id += "-window";
      facts.name += " (window)";
      facts.reach = Reach::kWindow;
      facts.multiply_adds = "4 n d² (projections) + 2 (n (2w + 1) - w (w + 1)) d";
      facts.memory = "4 n d + 2w + 1";
      facts.hops = "⌈(n - 1) / w⌉";
      facts.layers = "⌈(n - 1) / 2w⌉";
      pairs = {.n = 1, .d = 1, .k = 1};
      facts.path = PowerOfSizes{.n = 1, .d = 0, .k = -1};
    }
    facts.growth = {{Term::kProjections, {.n = 1, .d = 2}}, {Term::kScores, pairs}, {Term::kSums, pairs}};
    return facts;
  }

  std::vector<int64_t> WeightSizes(const LayerShape& shape) const { return std::vector<int64_t>(4, shape.width * shape.width); }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    const Activations mixed = Mix(shape, Project(weights[0], x, shape.width), Project(weights[1], x, shape.width),
                                  Project(weights[2], x, shape.width));
    Activations y = Project(weights[3], mixed, shape.width);
    for (int64_t i = 0; i < static_cast<int64_t>(y.size()); ++i) y[i] = NewState(y[i], i / shape.width);
    return y;
  }

  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const int64_t d = shape.width, h = shape.heads, most = MostKeys(shape, n);
    const int64_t before = Sight(shape, n), after = sees == Sees::kEarlier ? 0 : before;
    const int64_t pairs = n + PairsWithin(before, 1, n) + PairsWithin(after, 1, n);
    LayerNumbers numbers;
    numbers.Of(Term::kProjections) = 4 * n * d * d;
    numbers.Of(Term::kScores) = numbers.Of(Term::kSums) = pairs * d;
    numbers.operations.multiplications = h * pairs;
    AddSoftmax(numbers.operations, h * n, h * pairs);
    numbers.sequential_steps = 1;
    numbers.rounds = most > 1 ? 10 : 8;
    const int64_t projection = 1 + CeilLog2(d), score = 1 + CeilLog2(d / h), over_keys = CeilLog2(most);
    const int64_t softmax = 1 + over_keys + 1 + 1 + over_keys + 1;  // scale, maximum, subtract, exponential, sum, divide
    numbers.span = projection + score + softmax + (1 + over_keys) + projection;
    numbers.memory = 4 * n * d + most;
    numbers.longest_sum = std::max(d, most);
    numbers.path_length = numbers.longest_path = HopsOver(n - 1, before);
    numbers.layers_to_connect = HopsOver(n - 1, sees == Sees::kWindow ? 2 * before : before);
    return numbers;
  }

 private:
  // How far a query sees; at least 1 where anything but a window bounds it.
  int64_t Sight(const LayerShape& shape, int64_t length) const {
    return sees == Sees::kWindow ? std::min(shape.window, length) : std::max<int64_t>(length - 1, 1);
  }
  int64_t MostKeys(const LayerShape& shape, int64_t length) const {
    return sees == Sees::kWindow ? std::min(length, 2 * Sight(shape, length) + 1) : length;
  }

  // y_i = W x_i for every position.
  static Activations Project(const std::vector<Counted>& weight, std::span<const Counted> x, int64_t width) {
    Activations y(x.size());
    for (int64_t row = 0; row < static_cast<int64_t>(x.size()); row += width) {
      Multiply(Term::kProjections, weight.data(), &x[row], width, std::span(y).subspan(row, width));
    }
    return y;
  }

  // Weights of one query, softmax(scale * q . k_j) over `count` keys, which lie `stride` scalars apart.
  static Activations Look(const Counted* query, const Counted* keys, int64_t stride, int64_t count, int64_t head_width) {
    const Counted scale(1 / std::sqrt(static_cast<double>(head_width)));
    Activations weights(count);
    for (int64_t j = 0; j < count; ++j) {
      weights[j] = Dot(Term::kScores, Operand(query), Operand(keys + j * stride), head_width) * scale;
    }
    Softmax(weights);
    return weights;
  }

  // The heads' weighted sums. Queries, keys and values end with it.
  Activations Mix(const LayerShape& shape, Activations q, Activations k, Activations v) const {
    const int64_t width = shape.width, length = static_cast<int64_t>(q.size()) / width, head_width = width / shape.heads;
    const int64_t sight = Sight(shape, length);
    Activations mixed(q.size());
    for (int64_t i = 0; i < length; ++i) {
      const int64_t first = std::max<int64_t>(i - sight, 0),
                    last = sees == Sees::kEarlier ? i : std::min(i + sight, length - 1);
      for (int64_t head = 0; head < width; head += head_width) {
        const int64_t start = first * width + head, count = last - first + 1;
        const Activations weights = Look(&q[i * width + head], &k[start], width, count, head_width);
        SumRows(weights, &v[start], width, std::span(mixed).subspan(i * width + head, head_width));
      }
    }
    return mixed;
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_ATTENTION_H_
