// The backward kernel in double for every SIMD target.
#include "dispatch/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/backward_f64.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/backward-inl.h"
#include "position/hook_set-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

void BackwardTask(const attention::BackwardProblem<double>& problem, const dispatch::ChunkTask& task,
                  const dispatch::ChunkTask* next, std::byte* memory) {
  core::Arena arena(memory);
  attention::BackwardScratch<double> scratch(arena, problem.attention, problem.cut, problem.plan.shape(), problem.d_k.present(),
                                             problem.d_v.present());
  const HookSet<double> hooks(problem, scratch.hooks, task.chunk, task.copy);
  BackwardChunk<double> chunk(problem, scratch, hooks.hooks());
  if (next) chunk.Expect(next->b, next->kv_head, next->chunk);
  chunk.Run(task.b, task.kv_head, task.chunk);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(BackwardTask);

namespace dispatch {
void RunBackward(const attention::BackwardProblem<double>& problem, const ChunkTask& task, const ChunkTask* next,
                 std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardTask)(problem, task, next, scratch);
}
}  // namespace dispatch
}  // namespace heed
#endif
