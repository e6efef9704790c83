// Models of equal size: the width of the feed-forward sublayers makes up for what the mixing sublayers differ in.
#ifndef HEED_LAB_RUNS_FEED_FORWARD_H_
#define HEED_LAB_RUNS_FEED_FORWARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lab/runs/contender.h"

namespace heed::lab {

struct SizedContender : Contender {
  int64_t ffn_width = 0;   // of every layer's feed-forward sublayer: what makes the parameters equal
  int64_t parameters = 0;  // counted on the built model
};

// Builds a model with this width of its feed-forward sublayers and counts its parameters, which are linear in the width.
using CountParameters = std::function<int64_t(const Contender& contender, int64_t ffn_width)>;

// Attention with every position, every other encoder once, in order. Each gets the feed-forward width, a multiple of an eighth
// of `width`, with which it comes nearest to the parameters of attention without positions and a feed-forward width of
// `reference`.
std::vector<SizedContender> EqualContenders(const std::vector<std::string>& encoders, const std::vector<std::string>& positions,
                                            int64_t width, int64_t reference, const CountParameters& count);

}  // namespace heed::lab

#endif  // HEED_LAB_RUNS_FEED_FORWARD_H_
