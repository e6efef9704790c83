// What this core can do at most: a loop of fused multiply-adds on registers alone, in the widest vectors of the chosen target.
// Every claim of speed is a share of this number, measured in the same run.
#ifndef HEED_REFERENCE_FMA_PEAK_H_
#define HEED_REFERENCE_FMA_PEAK_H_

namespace heed::reference {

// Operations per second of the calling thread over about `seconds`, the best of several stretches.
double FmaPeak(int element_bytes, double seconds = 0.05);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_FMA_PEAK_H_
