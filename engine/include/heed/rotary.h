// Rotary positions: turns queries and keys by angles proportional to their positions, so that their products depend on
// positions only by their offset. Su et al. 2021, "RoFormer", section 3.2.
#ifndef HEED_ROTARY_H_
#define HEED_ROTARY_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "heed/executor.h"
#include "heed/positions.h"
#include "heed/view.h"

namespace heed {

// Pairs of columns among the first rotary_dim. Later columns pass unchanged.
enum class RotaryLayout {
  kHalf,         // t and t + rotary_dim/2: GPT-NeoX, Hugging Face's Llama
  kInterleaved,  // 2t and 2t+1: RoFormer, GPT-J, Meta's Llama
};

// Scalings for longer texts than those of the training, with the names of Hugging Face's rope_type. They change the
// frequencies, not the rotation. A factor, above 0, is how much longer the text gets. Lengths are in positions.

// Every frequency divided by the factor. Chen et al. 2023, "Positional Interpolation".
struct LinearScaling {
  double factor = 1.0;
};

// The base times factor^(dim/(dim-2)): the slowest pair is divided by the factor, the fastest stays. Not for dim 2.
struct NtkScaling {
  double factor = 1.0;
};

// NtkScaling with a factor from the text's length: 1 up to original_length, then
// factor * length / original_length - (factor - 1), which needs a factor of at least 1. Frequencies change while a text grows,
// and keys rotated earlier no longer fit: cache them unrotated.
struct DynamicScaling {
  double factor = 1.0;
  int64_t original_length = 0;
};

// Keeps frequencies that turn more than beta_fast times over original_length, divides those that turn less than beta_slow times
// by the factor, and interpolates linearly over the pairs between. Peng et al. 2023, "YaRN", section 3.2.
struct YarnScaling {
  double factor = 1.0;
  int64_t original_length = 0;
  double beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;  // the ramp's ends fall on whole pairs
  // Multiplies cosines and sines. By default g(1), or g(mscale) / g(mscale_all_dim) if both are given (DeepSeek), with
  // g(m) = 0.1 m ln(factor) + 1 for factors above 1, else 1.
  std::optional<double> attention_factor = {}, mscale = {}, mscale_all_dim = {};
};

// Divides each frequency by its own number, from short_factors up to original_length, else from long_factors. Ding et al. 2024,
// "LongRoPE". Cache keys unrotated, as with DynamicScaling.
struct LongRopeScaling {
  std::vector<double> short_factors = {}, long_factors = {};  // rotary_dim / 2 each
  int64_t original_length = 0;
  double factor = 1.0;                          // for the attention factor alone
  std::optional<double> attention_factor = {};  // by default sqrt(1 + ln(factor) / ln(original_length)), 1 for factors up to 1
};

// Keeps frequencies with wavelengths up to original_length / high_frequency_factor, divides those from original_length /
// low_frequency_factor on by the factor, and interpolates linearly in original_length / wavelength between. Llama 3.1.
struct Llama3Scaling {
  double factor = 8.0;
  double low_frequency_factor = 1.0, high_frequency_factor = 4.0;
  int64_t original_length = 8192;
};

using RotaryScaling =
    std::variant<std::monostate, LinearScaling, NtkScaling, DynamicScaling, YarnScaling, LongRopeScaling, Llama3Scaling>;

// Whether the frequencies depend on the length of the text.
bool DependsOnLength(const RotaryScaling& scaling);

// One angular frequency, in radians per step, for each pair of columns.
struct RotaryFrequencies {
  std::vector<double> values;     // rotary_dim / 2
  double attention_factor = 1.0;  // multiplies cosines and sines, so scores get its square
  // kFloat64: angles, cosines and sines in double, rounded once. kFloat32: position times frequency in float, as in Hugging
  // Face and hence in pretrained models; at position 1e6 angles are off by 5e-2.
  Angles angles = Angles::kFloat64;
};

struct RotaryOptions {
  int64_t rotary_dim = 0;  // columns that turn; even, at least 2
  double base = 10000.0;   // pair t turns by base^(-2t/rotary_dim) a step, before scaling; a finite number above 1
  RotaryScaling scaling = {};
  Angles angles = Angles::kFloat64;  // kFloat32: frequencies in float too
};

// length: the largest position of the text + 1, for the scalings that depend on it; 0, unknown, counts as at most
// original_length. Throws InvalidArgument, naming the option.
RotaryFrequencies ComputeRotaryFrequencies(const RotaryOptions& options, int64_t length = 0);

// cos, sin [N, rotary_dim/2]: attention_factor times the cosine and sine of position * frequency. Positions are a list [N] of
// whole or real numbers (timestamps), or count up from first_position. Throws InvalidArgument for shapes that do not fit,
// frequencies and positions that are not finite, and positions beyond 2^53, where neighbours have the same double.
void RotaryTable(const RotaryFrequencies& frequencies, View<const int64_t, 1> positions, View<float, 2> cos,
                 View<float, 2> sin);
void RotaryTable(const RotaryFrequencies& frequencies, View<const int64_t, 1> positions, View<double, 2> cos,
                 View<double, 2> sin);
void RotaryTable(const RotaryFrequencies& frequencies, View<const double, 1> positions, View<float, 2> cos, View<float, 2> sin);
void RotaryTable(const RotaryFrequencies& frequencies, View<const double, 1> positions, View<double, 2> cos,
                 View<double, 2> sin);
void RotaryTable(const RotaryFrequencies& frequencies, int64_t first_position, View<float, 2> cos, View<float, 2> sin);
void RotaryTable(const RotaryFrequencies& frequencies, int64_t first_position, View<double, 2> cos, View<double, 2> sin);

struct Rotation {
  RotaryLayout layout = RotaryLayout::kHalf;
  bool inverse = false;  // turns by the opposite angles, for the gradient
};

// out[b, h, i, :] = x[b, h, i, :] with the pairs of its first 2R columns turned: (a, b) becomes (a cos - b sin, b cos + a sin).
//   x, out    [B, H, N, D], any strides; out is x itself (the same view) or does not overlap it
//   cos, sin  [B or 1, N, R], 2R <= D; they do not overlap out
// Throws InvalidArgument, naming the argument and both shapes, before it writes anything.
void ApplyRotary(const Rotation& rotation, View<const float, 4> x, View<const float, 3> cos, View<const float, 3> sin,
                 View<float, 4> out, Executor& executor);
void ApplyRotary(const Rotation& rotation, View<const double, 4> x, View<const double, 3> cos, View<const double, 3> sin,
                 View<double, 4> out, Executor& executor);

}  // namespace heed

#endif  // HEED_ROTARY_H_
