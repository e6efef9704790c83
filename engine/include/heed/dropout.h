// Dropout of any array by counters, as in attention: in parallel, without a stored mask, the same for the same seed.
#ifndef HEED_DROPOUT_H_
#define HEED_DROPOUT_H_

#include <cstdint>

#include "heed/attention.h"
#include "heed/executor.h"

namespace heed {

// y[i] = x[i] / keep where element first + i is kept, else 0, for i < count; keep is the rounded probability of keeping
// (call_options.h). Philox4x32-10 (Salmon et al. 2011) decides from (seed, batch_offset, first + i) alone, so a part of an
// array that begins with element `first` drops as in the whole. x and y may be the same array, and must not overlap otherwise.
// T: float, double. Throws InvalidArgument for a probability outside [0, 1), a negative count or first.
template <class T>
void DropElements(const Dropout& dropout, const T* x, T* y, int64_t count, Executor& executor, int64_t first = 0);

extern template void DropElements(const Dropout&, const float*, float*, int64_t, Executor&, int64_t);
extern template void DropElements(const Dropout&, const double*, double*, int64_t, Executor&, int64_t);

}  // namespace heed

#endif  // HEED_DROPOUT_H_
