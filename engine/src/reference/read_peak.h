// What this core reads from memory at most: a sum over an array, in the widest vectors of the chosen target. Decoding with long
// caches is measured against this number, taken in the same run.
#ifndef HEED_REFERENCE_READ_PEAK_H_
#define HEED_REFERENCE_READ_PEAK_H_

#include <cstdint>

namespace heed::reference {

// The sum of data[0 .. count - 1], in some order.
float ReadAll(const float* data, int64_t count);

}  // namespace heed::reference

#endif  // HEED_REFERENCE_READ_PEAK_H_
