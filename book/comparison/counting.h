// Runs layers on counted scalars and reads off what they did, and how many hops, or how many stacked layers, it takes until
// information from one position reaches another.
#ifndef HEED_BOOK_COMPARISON_COUNTING_H_
#define HEED_BOOK_COMPARISON_COUNTING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "book/comparison/layer.h"

namespace heed::lab {

struct CountedRun {
  LayerNumbers numbers;        // but for paths
  std::vector<double> values;  // [length, width], what the layer computed while it was counted
};

// x [length, width]. Takes a few nanoseconds per multiply-add.
CountedRun CountRun(const Layer& layer, const LayerShape& shape, const LayerWeights& weights, const std::vector<double>& x);

// Who is read by whom: [from][to] is true where position `to` reads position `from`.
using Pattern = std::vector<Positions>;

// What is reached by stacking layers. Staying in place costs no hop, so what the first m layers reach grows with m.
class Reachability {
 public:
  // The same pattern in every layer.
  explicit Reachability(Pattern pattern) : layers_{std::move(pattern)}, uniform_(true) {}
  // One pattern a layer, from the input; beyond the last everything stays in place. At least one.
  explicit Reachability(std::vector<Pattern> layers) : layers_(std::move(layers)), uniform_(false) {}

  int64_t Hops(int64_t from, int64_t to) const { return HopsFrom(from)[to]; }
  // The longest of the shortest paths over all pairs; only from earlier to later positions when causal.
  int64_t LongestPath(bool causal) const;
  // Until some position depends on both.
  int64_t UntilSeenTogether(int64_t a, int64_t b) const;

 private:
  std::vector<int64_t> HopsFrom(int64_t from) const;  // to every position, kNever where it is not reached

  std::vector<Pattern> layers_;
  bool uniform_;
};

// Which position reads which, found by running the layer on scalars that carry sets of positions.
struct TracedRun {
  Pattern reads;      // states read directly: a recurrence is opened to its cell and reads the previous state
  Pattern receptive;  // inputs that the layer's output depends on
};

// The pattern depends neither on the width nor on the heads, so the layer runs with one channel.
TracedRun TraceRun(const Layer& layer, const LayerShape& shape, int64_t length);

// Paths through stacks of the layer: from position to position, and from input to output of whole layers.
struct Paths {
  Reachability hops, layers;
};
Paths TracePaths(const Layer& layer, LayerShape shape, int64_t length);

// Both runs put together. Counting takes as long as the layer has operations, tracing grows with length^3 / 64.
CountedRun CountAll(const Layer& layer, const LayerShape& shape, const LayerWeights& weights, const std::vector<double>& x);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_COUNTING_H_
