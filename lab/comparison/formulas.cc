#include "lab/comparison/formulas.h"

#include <algorithm>

#include "lab/comparison/reachability.h"

namespace heed::lab {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How many pairs (i, i + t) with 1 <= t <= reach lie within `length` positions: the sum of length - t.
int64_t PairsWithin(int64_t reach, int64_t length) {
  const int64_t farthest = std::min(reach, length - 1);
  return farthest * length - farthest * (farthest + 1) / 2;
}

// n = length, d = width, k = kernel. Without the ends there would be k n taps; `taps` are those that fall on the sequence.
LayerNumbers Convolution(const LayerShape& layer, int64_t n) {
  const int64_t d = layer.width, k = layer.kernel;
  const int64_t taps = n + PairsWithin(layer.taps_before(), n) + PairsWithin(layer.taps_after(), n);
  LayerNumbers numbers;
  numbers.mixing.multiply_adds = taps * d * d;
  numbers.sequential_steps = 1;
  numbers.rounds = 1;
  numbers.span = 1 + CeilLog2(std::min(k, n) * d);
  const auto hops = [n](int64_t reach) { return n == 1 ? 0 : reach == 0 ? kNever : CeilDivide(n - 1, reach); };
  numbers.path_length = numbers.longest_path = hops(layer.taps_before());
  numbers.layers_to_connect = hops(k - 1);  // the field of one position grows by k - 1 with every layer
  return numbers;
}

// Each turn: two products with a matrix, their sum, the hyperbolic tangent.
LayerNumbers Recurrence(const LayerShape& layer, int64_t n) {
  const int64_t d = layer.width;
  LayerNumbers numbers;
  numbers.mixing.multiply_adds = 2 * n * d * d;
  numbers.mixing.additions = n * d;
  numbers.mixing.hyperbolic_tangents = n * d;
  numbers.sequential_steps = n;
  numbers.rounds = 3 * n;
  numbers.span = n * (1 + CeilLog2(d) + 2);
  numbers.path_length = numbers.longest_path = n - 1;
  numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
  return numbers;
}

// Softmax of n scores per query and head: n scalings, n - 1 comparisons, n subtractions, n exponentials, n - 1 additions,
// n divisions. Reductions over one key are no operation.
LayerNumbers SelfAttention(const LayerShape& layer, int64_t n) {
  const int64_t d = layer.width, h = layer.heads;
  LayerNumbers numbers;
  numbers.projections.multiply_adds = 4 * n * d * d;
  numbers.mixing.multiply_adds = 2 * n * n * d;
  numbers.mixing.multiplications = h * n * n;
  numbers.mixing.comparisons = h * n * (n - 1);
  numbers.mixing.additions = h * n * n + h * n * (n - 1);
  numbers.mixing.exponentials = h * n * n;
  numbers.mixing.divisions = h * n * n;
  numbers.sequential_steps = 1;
  numbers.rounds = n > 1 ? 10 : 8;
  const int64_t projection = 1 + CeilLog2(d), score = 1 + CeilLog2(d / h), over_keys = CeilLog2(n);
  const int64_t softmax = 1 + over_keys + 1 + 1 + over_keys + 1;  // scale, maximum, subtract, exponential, sum, divide
  numbers.span = projection + score + softmax + (1 + over_keys) + projection;
  numbers.path_length = numbers.longest_path = numbers.layers_to_connect = std::min<int64_t>(n - 1, 1);
  return numbers;
}

}  // namespace

LayerNumbers ExpectedNumbers(const LayerShape& layer, int64_t length) {
  switch (layer.kind) {
    case LayerKind::kCentredConvolution:
    case LayerKind::kCausalConvolution:
      return Convolution(layer, length);
    case LayerKind::kRecurrence:
      return Recurrence(layer, length);
    case LayerKind::kSelfAttention:
      break;
  }
  return SelfAttention(layer, length);
}

}  // namespace heed::lab
