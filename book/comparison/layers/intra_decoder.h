#ifndef HEED_BOOK_COMPARISON_LAYERS_INTRA_DECODER_H_
#define HEED_BOOK_COMPARISON_LAYERS_INTRA_DECODER_H_

#include <algorithm>

#include "book/comparison/layers/lstm.h"
#include "book/comparison/layers/softmax.h"

namespace heed::lab {

// The intra-decoder attention of Paulus et al. 2018, section 2.2, h the states of an LSTM:
//   a_i = softmax_j<i(h_i . W h_j),  d_i = sum_j a_ij h_j,  y_i = U [h_i, d_i]
// Weights: W_x, W_h of the LSTM, W [width, width], U [width, 2 * width].
struct IntraDecoder {
  LayerFacts Facts() const {
    LayerFacts facts = Lstm().Facts();
    facts.id = "intra-decoder";
    facts.name = "intra-decoder attention";
    facts.multiply_adds = "11 n d² + n d + n (n - 1) d";
    facts.steps = "n + 1";
    facts.memory = "3 n d + n + 2 d";
    facts.hops = "1";
    facts.path = PowerOfSizes{};
    facts.growth.push_back({Term::kScores, {.n = 2, .d = 1}});
    facts.growth.push_back({Term::kSums, {.n = 2, .d = 1}});
    return facts;
  }
  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    const int64_t square = shape.width * shape.width;
    return {4 * square, 4 * square, square, 2 * square};
  }

  template <class Scalar>
  Activations<Scalar> Run(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) const {
    const int64_t d = shape.width;
    const Activations<Scalar> h = Lstm().Run(shape, weights, x);
    Activations<Scalar> keys(x.size()), y(x.size()), joined(2 * d);
    for (int64_t i = 0; i * d < static_cast<int64_t>(x.size()); ++i) {
      Activations<Scalar> seen(i);
      for (int64_t j = 0; j < i; ++j) seen[j] = Dot(Term::kScores, Operand(&h[i * d]), Operand(&keys[j * d]), d);
      if (i > 0) Softmax(seen);
      for (int64_t c = 0; c < d; ++c) {
        joined[c] = h[i * d + c];
        if (i > 0) joined[d + c] = Dot(Term::kSums, Operand(seen.data()), Operand(&h[c], d), i);
        keys[i * d + c] = Dot(Term::kProjections, Operand(&weights[2][c * d]), Operand(&h[i * d]), d);
      }
      for (int64_t c = 0; c < d; ++c) {
        y[i * d + c] = NewState(Dot(Term::kProjections, Operand(&weights[3][c * 2 * d]), Operand(joined.data()), 2 * d), i);
      }
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
    numbers.path_length = numbers.longest_path = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

  int64_t LongestSum(const LayerShape& shape, int64_t length) const { return std::max(2 * shape.width, length); }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_INTRA_DECODER_H_
