// Measures the profile of a stack.
#ifndef HEED_BOOK_DEPTH_PROFILER_H_
#define HEED_BOOK_DEPTH_PROFILER_H_

#include <ATen/core/Tensor.h>

#include "book/depth/profile.h"
#include "book/depth/stack.h"
#include "lab/data/batches.h"

namespace heed::lab {

// One forward and backward pass in double precision; attention's statistics come from the engine, which stores no matrix of
// weights. The model keeps its parameters and its type. Throws Interruption on Ctrl-C.
StackProfile Profile(StackModel& model, const Batch& batch);

// |X - 1 x^T| / |X| and the distance to rank one of X [windows, steps, width], each the mean over the windows. 0 where X is 0.
double DistanceToEqualRows(const at::Tensor& X);
double DistanceToRankOne(const at::Tensor& X);

}  // namespace heed::lab

#endif  // HEED_BOOK_DEPTH_PROFILER_H_
