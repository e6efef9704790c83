// Runs layers on instrumented scalars and reads off what they did.
#ifndef HEED_LAB_COMPARISON_COUNTING_H_
#define HEED_LAB_COMPARISON_COUNTING_H_

#include <cstdint>
#include <vector>

#include "lab/comparison/layers.h"
#include "lab/comparison/numbers.h"
#include "lab/comparison/reachability.h"

namespace heed::lab {

struct CountedRun {
  Operations projections, mixing;
  Depth depth;                 // the deepest of the layer's outputs
  std::vector<double> values;  // [length, width], what the layer computed while it was counted
};

// x [length, width]. Takes a few nanoseconds per multiply-add.
CountedRun CountRun(const LayerShape& layer, const LayerWeights<double>& weights, const std::vector<double>& x);

// Which position reads which, found by running the layer on scalars that carry sets of positions.
struct TracedRun {
  BitMatrix reads;      // states read directly: a recurrence is opened to its cell and reads the previous state
  BitMatrix receptive;  // inputs that the layer's output depends on
};

// The pattern does not depend on the width, so the layer runs at the narrowest one (one channel per head).
TracedRun TraceRun(const LayerShape& layer, int64_t length);

// Both runs put together. What `count` needs is length^2 * width, what `trace` needs grows with length^3 / 64.
LayerNumbers CountedNumbers(const LayerShape& layer, const CountedRun& count, const TracedRun& trace);

}  // namespace heed::lab

#endif  // HEED_LAB_COMPARISON_COUNTING_H_
