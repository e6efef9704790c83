// Keys of runs of tokens.
#ifndef HEED_LAB_DATA_RUN_HASH_H_
#define HEED_LAB_DATA_RUN_HASH_H_

#include <cstdint>

namespace heed::lab {

// A step of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators"), which spreads what
// differs little over all bits: among millions of runs a collision of 64 bits is not to be expected.
inline uint64_t Mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// The key of a run and one token more. Tokens are numbers apart from the lengths or kinds that keys begin with.
inline uint64_t Extended(uint64_t key, int32_t token) {
  return Mixed(key ^ Mixed((uint64_t{1} << 32) + static_cast<uint64_t>(token)));
}

}  // namespace heed::lab

#endif  // HEED_LAB_DATA_RUN_HASH_H_
