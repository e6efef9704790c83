// The kernels behind run-time dispatch, one entry per task and type. Implemented for every SIMD target in forward_*.cc and
// backward_*.cc; the calling file chooses nothing else.
#ifndef HEED_DISPATCH_KERNELS_H_
#define HEED_DISPATCH_KERNELS_H_

#include <cstdint>

#include "attention/problem.h"

namespace heed::dispatch {

// One panel of queries; task in 0 .. B * Hq * panels - 1. scratch: the bytes of a ForwardScratch.
void RunForward(const attention::ForwardProblem<float>& problem, int64_t task, std::byte* scratch);
void RunForward(const attention::ForwardProblem<double>& problem, int64_t task, std::byte* scratch);

// One chunk of keys of one key head, for the keys' gradients and the chunk's share of dQ.
void RunBackward(const attention::BackwardProblem<float>& problem, int64_t b, int64_t kv_head, int64_t chunk,
                 std::byte* scratch);
void RunBackward(const attention::BackwardProblem<double>& problem, int64_t b, int64_t kv_head, int64_t chunk,
                 std::byte* scratch);

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_KERNELS_H_
