// The backward kernel for every SIMD target.
#include "dispatch/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/backward_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/backward-inl.h"
#include "attention/gradient_home-inl.h"
#include "position/hook_set-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// One thread's work for the time of a call.
template <class T>
void BackwardOf(const dispatch::BackwardCall<T>& call, const dispatch::BackwardTasks& plan, core::TaskQueue& tasks,
                std::byte* memory) {
  const attention::BackwardProblem<T>& problem = call.problem;
  core::Arena arena(memory);
  attention::BackwardScratch<T> scratch(arena, call.facts,
                                        attention::WantedOperands::Of(problem.d_q, problem.d_k, problem.d_v));
  const HookSet<T> hooks(call.schemes, arena, problem, scratch.ahead);
  BackwardChunk<T> chunk(problem, scratch, hooks.hooks());
  tasks.Work([&](int64_t task, int64_t next) {
    const int64_t parts = plan.PartsOf(task);
    int64_t part = 0;
    plan.ForEachChunk(task, next, [&](const attention::ChunkPlace& at, const attention::ChunkPlace* after) {
      chunk.Run(at, after);
      tasks.Pass(task, ++part, parts);
    });
  });
}

template <class T>
void FinishGradientsOf(const dispatch::BackwardCall<T>& call, const dispatch::FinishTasks& plan, core::TaskQueue& tasks) {
  tasks.Work([&](int64_t task, int64_t) {
    plan.Run(
        task, [&](int64_t b, int64_t h, int64_t first, int64_t last) { FinishQueries(call.problem, b, h, first, last); },
        [&](int64_t b, int64_t kv_head, int64_t chunk) { FinishKeys(call.problem, b, kv_head, chunk); });
  });
}

dispatch::BackwardKernels<float> BackwardF32() { return {&BackwardOf<float>, &FinishGradientsOf<float>}; }
dispatch::BackwardKernels<double> BackwardF64() { return {&BackwardOf<double>, &FinishGradientsOf<double>}; }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(BackwardF32);
HWY_EXPORT(BackwardF64);

template <>
dispatch::BackwardKernels<float> dispatch::BackwardKernelsInUse() {
  return HWY_DYNAMIC_DISPATCH(BackwardF32)();
}
template <>
dispatch::BackwardKernels<double> dispatch::BackwardKernelsInUse() {
  return HWY_DYNAMIC_DISPATCH(BackwardF64)();
}

}  // namespace heed
#endif
