// What this core can do at most, in the widest vectors of the chosen target. Every claim of speed is a share of one of these
// numbers, measured in the same run.
#ifndef HEED_REFERENCE_PEAKS_H_
#define HEED_REFERENCE_PEAKS_H_

#include <cstdint>

namespace heed::reference {

// Operations per second of the calling thread in a loop of fused multiply-adds on registers alone, over about `seconds`, the
// best of several stretches.
double FmaPeak(int element_bytes, double seconds = 0.05);

// The sum of data[0 .. count - 1], in some order: decoding with long caches is measured against what is read from memory so.
float ReadAll(const float* data, int64_t count);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_PEAKS_H_
