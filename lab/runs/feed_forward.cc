#include "lab/runs/feed_forward.h"

#include <algorithm>
#include <cmath>

namespace heed::lab {

FeedForwardFit FitFeedForward(int64_t unit, int64_t target, const std::function<int64_t(int64_t width)>& count) {
  const int64_t least = count(unit);
  const int64_t slope = count(2 * unit) - least;
  const int64_t more = std::llround(static_cast<double>(target - least) / static_cast<double>(slope));
  const int64_t width = unit * std::max<int64_t>(1, 1 + more);
  return {width, count(width)};
}

}  // namespace heed::lab
