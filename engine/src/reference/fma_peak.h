// What this core can do at most: a loop of fused multiply-adds on registers alone, in the widest vectors of the chosen target.
// Every claim of speed is a share of this number, measured in the same run.
#ifndef HEED_REFERENCE_FMA_PEAK_H_
#define HEED_REFERENCE_FMA_PEAK_H_

#include <cstdint>

namespace heed::reference {

// Runs `rounds` of multiply-adds in float or double; returns the floating-point operations done (two a lane and FMA).
double SpinFmaFloat(int64_t rounds);
double SpinFmaDouble(int64_t rounds);

// Operations per second of the calling thread over about `seconds`, the best of several stretches.
double FmaPeak(int element_bytes, double seconds = 0.05);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_FMA_PEAK_H_
