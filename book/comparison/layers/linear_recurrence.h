#ifndef HEED_BOOK_COMPARISON_LAYERS_LINEAR_RECURRENCE_H_
#define HEED_BOOK_COMPARISON_LAYERS_LINEAR_RECURRENCE_H_

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "book/comparison/layer.h"

namespace heed::lab {

// h_i = a_i * h_{i-1} + b_i with gates that see their own input only: a_i = sigmoid(W_a x_i), b_i = (1 - a_i) * (W_b x_i).
// Two turns in a row are again a turn, (a, b) after (a', b') being (a a', a b' + b), so all of them can be had by a prefix
// scan: here that of Hillis and Steele 1986, in which distances double and every position goes on at once (Martin and Cundy
// 2018 for its use in recurrent networks). Weights: W_a, W_b [width (output), width (input)].
struct LinearRecurrence {
  bool parallel;  // by a scan instead of one position after the other

  LayerFacts Facts() const;

  std::vector<int64_t> WeightSizes(const LayerShape& shape) const {
    return {shape.width * shape.width, shape.width * shape.width};
  }

  template <class Scalar>
  Activations<Scalar> Run(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) const {
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
    // Hops are powers of two: as many as n - 1 has ones, at most as many as a number below n can have.
    numbers.path_length = parallel ? std::popcount(static_cast<uint64_t>(n - 1)) : n - 1;
    numbers.longest_path = parallel ? std::bit_width(static_cast<uint64_t>(n)) - 1 : n - 1;
    numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
    return numbers;
  }

  // A state is a sum of one product for each position before it.
  int64_t LongestSum(const LayerShape& shape, int64_t length) const { return std::max(shape.width, length); }

 private:
  template <class Scalar>
  struct Gates {
    Scalar decay, entry;
  };

  template <class Scalar>
  static Gates<Scalar> GatesOf(const LayerShape& shape, const LayerWeights<Scalar>& weights, const Scalar* input,
                               int64_t channel) {
    const auto product = [&](int64_t matrix) {
      return Dot(Term::kProjections, Operand(&weights[matrix][channel * shape.width]), Operand(input), shape.width);
    };
    const Scalar decay = Sigmoid(product(0));
    return {decay, (Scalar(1.0) - decay) * product(1)};
  }

  template <class Scalar>
  static Activations<Scalar> OneAfterTheOther(const LayerShape& shape, const LayerWeights<Scalar>& weights,
                                              std::span<const Scalar> x) {
    Activations<Scalar> h(x.size());
    const int64_t width = shape.width;
    for (int64_t at = 0; at < static_cast<int64_t>(x.size()); ++at) {
      const int64_t position = at / width;
      const auto [decay, entry] = GatesOf(shape, weights, &x[position * width], at % width);
      const Scalar state = position == 0 ? entry : MultiplyAdd(Term::kRecurrence, decay, h[at - width], entry);
      h[at] = NewState(state, position);
    }
    return h;
  }

  template <class Scalar>
  static Activations<Scalar> Scan(const LayerShape& shape, const LayerWeights<Scalar>& weights, std::span<const Scalar> x) {
    const int64_t width = shape.width, size = static_cast<int64_t>(x.size());
    Activations<Scalar> decays(size), h(size);
    for (int64_t at = 0; at < size; ++at) {
      const auto [decay, entry] = GatesOf(shape, weights, &x[at / width * width], at % width);
      decays[at] = decay;
      h[at] = entry;
    }
    // `shift` in numbers, not positions. From the end, so that each reads what the others held before this doubling.
    for (int64_t shift = width; shift < size; shift *= 2) {
      for (int64_t at = size - 1; at >= shift; --at) {
        const Scalar state = MultiplyAdd(Term::kRecurrence, decays[at], h[at - shift], h[at]);
        // Once it covers everything back to the first position, a decay is not needed any more.
        if (at / width >= 2 * shift / width) decays[at] = NewState(decays[at] * decays[at - shift], at / width);
        h[at] = NewState(state, at / width);
      }
    }
    for (int64_t at = 0; at < width; ++at) h[at] = NewState(h[at], 0);  // the others have become states on the way
    return h;
  }
};

inline LayerFacts LinearRecurrence::Facts() const {
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

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_LINEAR_RECURRENCE_H_
