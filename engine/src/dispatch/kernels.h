// The kernels behind run-time dispatch, one entry per task and type. Implemented for every SIMD target in forward_*.cc and
// backward_*.cc; the calling file chooses nothing else.
#ifndef HEED_DISPATCH_KERNELS_H_
#define HEED_DISPATCH_KERNELS_H_

#include <cstdint>

#include "attention/problem.h"

namespace heed::dispatch {

// One panel of queries, or one split of its keys where panels are split; task in 0 .. B * Hq / group * panels * splits - 1.
// next: the task that the same worker is likely to run after it, or -1; its memory is asked for meanwhile. scratch: the bytes
// of a ForwardScratch.
void RunForward(const attention::ForwardProblem<float>& problem, int64_t task, int64_t next, std::byte* scratch);
void RunForward(const attention::ForwardProblem<double>& problem, int64_t task, int64_t next, std::byte* scratch);

// Merges the splits of one panel; task in 0 .. B * Hq / group * panels - 1.
void RunMerge(const attention::ForwardProblem<float>& problem, int64_t task, std::byte* scratch);
void RunMerge(const attention::ForwardProblem<double>& problem, int64_t task, std::byte* scratch);

// A panel's worth of the rows asked for, of one head; task in 0 .. B * heads * panels of rows - 1.
void RunWeights(const attention::WeightsProblem<float>& problem, int64_t task, std::byte* scratch);
void RunWeights(const attention::WeightsProblem<double>& problem, int64_t task, std::byte* scratch);

// One chunk of keys of one key head, for the keys' gradients and the chunk's share of dQ. next: likely to come after it, or
// null.
struct ChunkTask {
  int64_t b, kv_head, chunk;
  int64_t copy;  // of the gradient of a dense bias that the task adds to
};
void RunBackward(const attention::BackwardProblem<float>& problem, const ChunkTask& task, const ChunkTask* next,
                 std::byte* scratch);
void RunBackward(const attention::BackwardProblem<double>& problem, const ChunkTask& task, const ChunkTask* next,
                 std::byte* scratch);

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_KERNELS_H_
