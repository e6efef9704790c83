// Convolutions along the sequence: contiguous or dilated, centred or causal.
#ifndef HEED_BOOK_COMPARISON_LAYERS_CONVOLUTION_H_
#define HEED_BOOK_COMPARISON_LAYERS_CONVOLUTION_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "book/comparison/layers/parts.h"

namespace heed::lab {

// base^exponent, but at most `limit`.
constexpr int64_t PowerUpTo(int64_t base, int64_t exponent, int64_t limit) {
  int64_t power = 1;
  for (int64_t i = 0; i < exponent && power < limit && base > 1; ++i) power = power > limit / base ? limit : power * base;
  return power;
}

// The smallest m with base^m >= number; base >= 2 or number 1.
constexpr int64_t CeilLog(int64_t number, int64_t base) {
  int64_t exponent = 0;
  for (int64_t power = 1; power < number; power *= base) ++exponent;
  return exponent;
}

constexpr int64_t LargestDigit(int64_t number, int64_t base) {
  int64_t largest = 0;
  for (; number > 0; number /= base) largest = std::max(largest, number % base);
  return largest;
}

// y_i = sum over taps t of W_t x_{i + (t - before) D}, D = 1 or kernel^level; `before` taps lie before a position, the rest
// after it. Taps beyond the ends are left out, not multiplied by zero. Weights: W [width (output), kernel, width (input)].
struct Convolution {
  bool causal, dilated;

  int64_t Before(const LayerShape& shape) const { return causal ? shape.kernel - 1 : (shape.kernel - 1) / 2; }
  int64_t After(const LayerShape& shape) const { return shape.kernel - 1 - Before(shape); }
  // Beyond `length` one dilation is like another.
  int64_t Dilation(const LayerShape& shape, int64_t length) const {
    return dilated ? PowerUpTo(shape.kernel, shape.level, length) : 1;
  }

  LayerFacts Facts() const {
    LayerFacts facts;
    facts.id = std::string(dilated ? "dilated" : "convolution") + (causal ? "-causal" : "");
    facts.name = std::string(dilated ? "dilated convolution" : "convolution") + (causal ? " (causal)" : " (centred)");
    facts.causal = causal;
    facts.changes_with_level = dilated;
    facts.reach = Reach::kKernel;
    facts.multiply_adds = causal ? "k n d² - d² k (k - 1) / 2" : "k n d² - d² (k² - 1) / 4";
    if (dilated) facts.multiply_adds = causal ? "k n d² - D d² k (k - 1) / 2" : "k n d² - D d² (k² - 1) / 4";
    facts.steps = "1";
    facts.memory = "n d";
    facts.growth = {{Term::kConvolution, {.n = 1, .d = 2, .k = 1}}};
    if (dilated) {
      facts.hops = causal ? "⌈log_k n⌉" : "⌈log_k n⌉, or never";
      facts.layers = "⌈log_k n⌉";
    } else {
      facts.hops = causal ? "⌈(n - 1) / (k - 1)⌉" : "⌈(n - 1) / ((k - 1) / 2)⌉";
      facts.layers = "⌈(n - 1) / (k - 1)⌉";
      facts.path = PowerOfSizes{.n = 1, .d = 0, .k = -1};
    }
    return facts;
  }

  std::vector<int64_t> WeightSizes(const LayerShape& shape) const { return {shape.width * shape.width * shape.kernel}; }

  Activations Run(const LayerShape& shape, const LayerWeights& weights, std::span<const Counted> x) const {
    const int64_t width = shape.width, length = static_cast<int64_t>(x.size()) / width, step = Dilation(shape, length);
    Activations y(x.size());
    for (int64_t i = 0; i < length; ++i) {
      const int64_t before = std::min(Before(shape), i / step), after = std::min(After(shape), (length - 1 - i) / step);
      const Operand window(&x[(i - before * step) * width], 1, step * width);
      for (int64_t out = 0; out < width; ++out) {
        const Operand taps(&weights[0][(out * shape.kernel + Before(shape) - before) * width], 1, width);
        y[i * width + out] = NewState(Dot(Term::kConvolution, taps, window, width, before + 1 + after), i);
      }
    }
    return y;
  }

  // Without the ends there would be k n taps; counted are those that fall on the sequence.
  LayerNumbers Expected(const LayerShape& shape, int64_t n) const {
    const int64_t d = shape.width, step = Dilation(shape, n);
    const int64_t taps = n + PairsWithin(Before(shape), step, n) + PairsWithin(After(shape), step, n);
    LayerNumbers numbers;
    numbers.Of(Term::kConvolution) = taps * d * d;
    numbers.sequential_steps = 1;
    numbers.rounds = 1;
    numbers.span = 1 + CeilLog2((std::min(shape.kernel - 1, (n - 1) / step) + 1) * d);
    numbers.memory = n * d;
    numbers.longest_sum = shape.kernel * d;
    dilated ? DilatedPaths(shape, n, numbers) : ContiguousPaths(shape, n, numbers);
    return numbers;
  }

 private:
  void ContiguousPaths(const LayerShape& shape, int64_t n, LayerNumbers& numbers) const {
    numbers.path_length = numbers.longest_path = HopsOver(n - 1, Before(shape));
    numbers.layers_to_connect = HopsOver(n - 1, shape.kernel - 1);  // the field of one position grows by k - 1 with every layer
  }

  // Layer l moves by a digit times k^l. The causal digits 0 .. k - 1 write every distance in one way. The centred ones,
  // -(k - 1) / 2 .. (k - 1) / 2, do so too, but a path must not leave the sequence: from the first position it can only go
  // right, so it reaches the last one only where no digit of n - 1 in base k is larger than (k - 1) / 2. A position between
  // them that sees both always exists, since two such digits add up to any digit.
  void DilatedPaths(const LayerShape& shape, int64_t n, LayerNumbers& numbers) const {
    const int64_t layers = n > 1 && shape.kernel == 1 ? kNever : CeilLog(n, shape.kernel), half = (shape.kernel - 1) / 2;
    numbers.layers_to_connect = numbers.path_length = numbers.longest_path = layers;
    if (causal || layers == kNever) return;
    if (LargestDigit(n - 1, shape.kernel) > half) numbers.path_length = kNever;
    if (n - 1 > half) numbers.longest_path = kNever;  // the distance half + 1, seen from the first position
  }
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_LAYERS_CONVOLUTION_H_
