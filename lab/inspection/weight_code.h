// Attention weights in eight bits each, evenly spaced in their logarithm.
#ifndef HEED_LAB_INSPECTION_WEIGHT_CODE_H_
#define HEED_LAB_INSPECTION_WEIGHT_CODE_H_

#include <cstdint>

namespace heed::lab {

// Code c > 0 stands for 2^((c - 255) / steps_per_octave), so that 255 is 1; code 0 stands for 0 and for every weight that is
// nearer to it than 2^-kOctaves is. Relative steps are what an eye and a logarithmic scale see alike everywhere.
class WeightCode {
 public:
  static constexpr int kOctaves = 21;  // 4.8e-7: rows of thousands of keys lose less than a hundredth of a per cent to zero

  static constexpr int kMostSteps = 254 / kOctaves;  // what eight bits have room for

  // 1 to kMostSteps.
  explicit WeightCode(int steps_per_octave) : steps_per_octave_(steps_per_octave) {}

  int steps_per_octave() const { return steps_per_octave_; }
  uint8_t Encode(double weight) const;  // of 0..1
  double Decode(uint8_t code) const;
  double least() const;           // the smallest weight that is not shown as 0
  double relative_error() const;  // the most by which a decoded weight of least() or more is off, as a share of it

 private:
  int steps_per_octave_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_INSPECTION_WEIGHT_CODE_H_
