// Models of equal size: the width of the feed-forward sublayers makes up for what the mixing sublayers differ in.
#ifndef HEED_LAB_RUNS_FEED_FORWARD_H_
#define HEED_LAB_RUNS_FEED_FORWARD_H_

#include <cstdint>
#include <functional>

namespace heed::lab {

struct FeedForwardFit {
  int64_t width = 0;       // of every layer's feed-forward sublayer
  int64_t parameters = 0;  // counted with it
};

// The multiple of `unit`, at least one, with which `count` comes nearest to the target; `count` builds a model with a width and
// counts its parameters, which are linear in it.
FeedForwardFit FitFeedForward(int64_t unit, int64_t target, const std::function<int64_t(int64_t width)>& count);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_FEED_FORWARD_H_
