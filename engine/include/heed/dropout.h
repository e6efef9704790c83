// Dropout of any array, decided by counters as in attention: in parallel, with nothing stored and the same mask whenever it is
// asked for.
#ifndef HEED_DROPOUT_H_
#define HEED_DROPOUT_H_

#include <cstdint>

#include "heed/attention.h"
#include "heed/executor.h"

namespace heed {

// y[i] = x[i] / keep where element i is kept, else 0, for i < count; keep is the probability realised (attention.h). Which
// elements stay is a function of (seed, batch_offset, i) alone: Philox4x32-10, Salmon et al. 2011. x and y may be the same
// array, and must not overlap otherwise. T: float, double. Throws InvalidArgument for a probability outside [0, 1) or a
// negative count.
template <class T>
void DropElements(const Dropout& dropout, const T* x, T* y, int64_t count, Executor& executor);

extern template void DropElements(const Dropout&, const float*, float*, int64_t, Executor&);
extern template void DropElements(const Dropout&, const double*, double*, int64_t, Executor&);

}  // namespace heed

#endif  // HEED_DROPOUT_H_
