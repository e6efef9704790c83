// Runs layers on instrumented scalars and reads off what they did.
#ifndef HEED_BOOK_COMPARISON_COUNTING_H_
#define HEED_BOOK_COMPARISON_COUNTING_H_

#include <cstdint>
#include <vector>

#include "book/comparison/layer.h"
#include "book/comparison/numbers.h"
#include "book/comparison/reachability.h"

namespace heed::lab {

struct CountedRun {
  Products products;
  Operations operations;
  int64_t memory;              // the most activations held at once
  Depth depth;                 // the deepest of the layer's outputs
  std::vector<double> values;  // [length, width], what the layer computed while it was counted
};

// x [length, width]. Takes a few nanoseconds per multiply-add.
CountedRun CountRun(const Layer& layer, const LayerShape& shape, const LayerWeights<double>& weights,
                    const std::vector<double>& x);

// Which position reads which, found by running the layer on scalars that carry sets of positions.
struct TracedRun {
  BitMatrix reads;      // states read directly: a recurrence is opened to its cell and reads the previous state
  BitMatrix receptive;  // inputs that the layer's output depends on
};

// The pattern depends neither on the width nor on the heads, so the layer runs with one channel.
TracedRun TraceRun(const Layer& layer, const LayerShape& shape, int64_t length);

// Paths through stacks of the layer: from position to position, and from input to output of whole layers.
struct Paths {
  Reachability hops, layers;
};
Paths TracePaths(const Layer& layer, const LayerShape& shape, int64_t length);

// Both runs put together. Counting takes as long as the layer has operations, tracing grows with length^3 / 64.
LayerNumbers CountedNumbers(const Layer& layer, const LayerShape& shape, int64_t length, const CountedRun& count);

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_COUNTING_H_
