// Positional tables: numbers that depend on positions alone.
#ifndef HEED_POSITIONS_H_
#define HEED_POSITIONS_H_

#include <cstdint>
#include <vector>

#include "heed/view.h"

namespace heed {

// The order of sines and cosines in a row.
enum class SinusoidalLayout {
  kInterleaved,  // sin, cos, sin, cos, ...: Vaswani et al. 2017, section 3.5, and d2l
  kHalves,       // all sines, then all cosines
};

enum class Angles {
  kFloat64,  // position / base^(2t/d) in double
  kFloat32,  // position / base^(2t/d) in float, as d2l's PyTorch edition computes them
};

// Steps that frequency t takes for a radian.
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

// table [steps, width]: row i encodes position first_position + i by the sines and cosines of angle(t) = position / (the
// spacing's steps for frequency t). Odd widths have one more sine than cosines; with kInclusive a last column of zeros instead.
// Throws InvalidArgument, naming the argument, before it writes anything.
void SinusoidalTable(const SinusoidalOptions& options, int64_t first_position, View<float, 2> table);
void SinusoidalTable(const SinusoidalOptions& options, int64_t first_position, View<double, 2> table);
// Row i encodes positions[i], a finite number.
void SinusoidalTable(const SinusoidalOptions& options, View<const double, 1> positions, View<float, 2> table);
void SinusoidalTable(const SinusoidalOptions& options, View<const double, 1> positions, View<double, 2> table);

// The angular frequencies base^(-2t/width), t = 0 .. ceil(width/2)-1, in radians per step. Throws InvalidArgument for a width
// below 1 and a base that is not above 0.
std::vector<double> SinusoidalFrequencies(int64_t width, double base = 10000.0);

// One slope per head, 2^(-8(h+1)/H) for H a power of two, else those of the next lower power of two, then every second slope of
// the next higher one. Throws InvalidArgument for heads below 1. Press et al. 2022, "Train Short, Test Long", section 3.
std::vector<double> AlibiSlopes(int64_t heads);

// table [heads, 2 * max_distance + 1]: entry (h, delta + max_distance) is -slope_h * |delta|. Throws InvalidArgument.
void AlibiTable(const std::vector<double>& slopes, int64_t max_distance, View<float, 2> table);
void AlibiTable(const std::vector<double>& slopes, int64_t max_distance, View<double, 2> table);

// The relative buckets of T5: each near distance has a bucket; farther ones share buckets whose ranges grow geometrically up to
// max_distance. Raffel et al. 2020, "Exploring the Limits of Transfer Learning", section 2.1.
struct T5Options {
  int64_t buckets = 32;        // in all; 2 .. 4096, bidirectional: even and at least 4
  int64_t max_distance = 128;  // distances from here on share the last bucket; above half of a side's buckets, below 2^31
  bool bidirectional = true;   // one half of the buckets for keys up to the query, the other for keys after it
};

// The smallest distance of each bucket of one side, ascending; of two equal ones the first bucket is empty. Exact, without
// rounded logarithms. Throws InvalidArgument, naming the option.
std::vector<int64_t> T5Thresholds(const T5Options& options);

// buckets [2 * reach + 1]: entry (delta + reach) is the bucket of a key delta positions after its query. Without bidirectional,
// keys after the query get bucket 0. Throws InvalidArgument.
void T5Buckets(const T5Options& options, int64_t reach, View<int64_t, 1> buckets);

}  // namespace heed

#endif  // HEED_POSITIONS_H_
