// Positional tables: numbers that depend on positions alone.
#ifndef HEED_POSITIONS_H_
#define HEED_POSITIONS_H_

#include <cstdint>
#include <vector>

#include "heed/view.h"

namespace heed {

// Where sines and cosines of one frequency stand in a row.
enum class SinusoidalLayout {
  kInterleaved,  // sin, cos, sin, cos, ...: Vaswani et al. 2017, section 3.5, and d2l
  kHalves,       // all sines, then all cosines
};

enum class Angles {
  kFloat64,  // exact to the last bit of float at any position
  kFloat32,  // position / base^(2t/d) in float, as d2l's PyTorch edition computes them
};

// How many steps frequency t takes for a radian.
enum class SinusoidalSpacing {
  kGeometric,  // base^(2t/width)
  kInclusive,  // base^(t/(width/2 - 1)), from 1 to the base itself: tensor2tensor and fairseq
};

struct SinusoidalOptions {
  SinusoidalLayout layout = SinusoidalLayout::kInterleaved;
  double base = 10000.0;
  Angles angles = Angles::kFloat64;
  SinusoidalSpacing spacing = SinusoidalSpacing::kGeometric;
};

// table[i, :] encodes position first_position + i: angle(position, t) is the position over the spacing's steps for frequency t,
// its sine and cosine placed by the layout. Odd widths have ceil(width/2) sines and floor(width/2) cosines; where the spacing
// is inclusive, as many sines as cosines and a last column of zeros. table [steps, width].
void SinusoidalTable(const SinusoidalOptions& options, int64_t first_position, View<float, 2> table);
void SinusoidalTable(const SinusoidalOptions& options, int64_t first_position, View<double, 2> table);
// The same where table[i, :] encodes positions[i], finite numbers. Throws InvalidArgument, naming the argument.
void SinusoidalTable(const SinusoidalOptions& options, View<const double, 1> positions, View<float, 2> table);
void SinusoidalTable(const SinusoidalOptions& options, View<const double, 1> positions, View<double, 2> table);

// The angular frequencies base^(-2t/width), t = 0 .. ceil(width/2)-1, in radians per step.
std::vector<double> SinusoidalFrequencies(int64_t width, double base = 10000.0);

// One slope per head, 2^(-8(h+1)/H) for H a power of two, else those of the lower power of two followed by every second
// slope of the doubled set. Press et al. 2022, "Train Short, Test Long", section 3.
std::vector<double> AlibiSlopes(int64_t heads);

// table [heads, 2 * max_distance + 1]: entry (h, delta + max_distance) is -slope_h * |delta|.
void AlibiTable(const std::vector<double>& slopes, int64_t max_distance, View<float, 2> table);
void AlibiTable(const std::vector<double>& slopes, int64_t max_distance, View<double, 2> table);

// The relative buckets of T5: near distances have a bucket each, farther ones share buckets that grow geometrically up to
// max_distance. Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.1.
struct T5Options {
  int64_t buckets = 32;        // in all; 2 .. 4096, bidirectional: even and at least 4
  int64_t max_distance = 128;  // from here on all distances share the last bucket; above half of a side's buckets, below 2^31
  bool bidirectional = true;   // one half of the buckets for keys up to the query, the other for keys after it
};

// The smallest distance of each bucket of one side, ascending; two equal ones mean that the first bucket stays empty. Exact:
// no rounded logarithm decides. Throws InvalidArgument, naming the option.
std::vector<int64_t> T5Thresholds(const T5Options& options);

// buckets [2 * reach + 1]: entry (delta + reach) is the bucket of a key delta positions after its query. Without
// bidirectional, keys after the query fall into bucket 0.
void T5Buckets(const T5Options& options, int64_t reach, View<int64_t, 1> buckets);

}  // namespace heed

#endif  // HEED_POSITIONS_H_
