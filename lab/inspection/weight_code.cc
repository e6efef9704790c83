#include "lab/inspection/weight_code.h"

#include <algorithm>
#include <cmath>

namespace heed::lab {
namespace {

constexpr int kOne = 255;  // the code of weight 1

}  // namespace

uint8_t WeightCode::Encode(double weight) const {
  if (weight < least()) return 0;
  const double code = kOne + std::round(steps_per_octave_ * std::log2(weight));
  return static_cast<uint8_t>(std::clamp(code, 1.0, double{kOne}));
}

double WeightCode::Decode(uint8_t code) const {
  return code == 0 ? 0.0 : std::exp2(static_cast<double>(code - kOne) / steps_per_octave_);
}

double WeightCode::least() const { return std::exp2(-kOctaves - 0.5 / steps_per_octave_); }

double WeightCode::relative_error() const { return std::exp2(0.5 / steps_per_octave_) - 1.0; }

}  // namespace heed::lab
