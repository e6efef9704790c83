#include "lab/data/random.h"

#include <bit>

namespace heed::lab {
namespace {

uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = SplitMix64(seed);
}

uint64_t Random::Next() {
  const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::Below(uint64_t bound) {
  __extension__ using Wide = unsigned __int128;
  Wide product = Wide{Next()} * bound;
  const uint64_t uneven = (0 - bound) % bound;  // 2^64 mod bound: that many low words would favour the first values
  while (static_cast<uint64_t>(product) < uneven) product = Wide{Next()} * bound;
  return static_cast<uint64_t>(product >> 64);
}

double Random::Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

}  // namespace heed::lab
