// The generator behind every random choice of data: the same numbers on every machine and with every standard library.
#ifndef HEED_LAB_DATA_RANDOM_H_
#define HEED_LAB_DATA_RANDOM_H_

#include <array>
#include <cstdint>

namespace heed::lab {

// xoshiro256++, Blackman and Vigna 2021, "Scrambled linear pseudorandom number generators"; its state is filled from the seed
// by SplitMix64, as they advise.
class Random {
 public:
  using State = std::array<uint64_t, 4>;

  explicit Random(uint64_t seed);
  explicit Random(const State& state) : state_(state) {}

  uint64_t Next();
  // Uniform in 0..bound-1 without bias (Lemire 2019, "Fast random integer generation in an interval"); bound >= 1.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1), a multiple of 2^-53.
  double Uniform();

  const State& state() const { return state_; }

 private:
  State state_;
};

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_RANDOM_H_
