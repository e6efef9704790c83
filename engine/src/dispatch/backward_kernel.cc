// The backward kernel for every SIMD target.
#include "dispatch/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/backward_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/backward-inl.h"
#include "attention/finish_queries-inl.h"
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
    plan.ForEachChunk(task, next,
                      [&](const attention::ChunkPlace& at, const attention::ChunkPlace* after) { chunk.Run(at, after); });
  });
}

template <class T>
void FinishQueriesOf(const dispatch::BackwardCall<T>& call, core::TaskQueue& tasks) {
  const QueryFinish<T> finish(call.problem);
  const int64_t heads = call.problem.plan.shape().q_heads;
  tasks.Work([&](int64_t row, int64_t) { finish.Run(row / heads, row % heads); });
}

void FinishQueriesF32(const dispatch::BackwardCall<float>& call, core::TaskQueue& tasks) { FinishQueriesOf(call, tasks); }
void FinishQueriesF64(const dispatch::BackwardCall<double>& call, core::TaskQueue& tasks) { FinishQueriesOf(call, tasks); }

void BackwardF32(const dispatch::BackwardCall<float>& call, const dispatch::BackwardTasks& plan, core::TaskQueue& tasks,
                 std::byte* scratch) {
  BackwardOf(call, plan, tasks, scratch);
}
void BackwardF64(const dispatch::BackwardCall<double>& call, const dispatch::BackwardTasks& plan, core::TaskQueue& tasks,
                 std::byte* scratch) {
  BackwardOf(call, plan, tasks, scratch);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(BackwardF32);
HWY_EXPORT(BackwardF64);
HWY_EXPORT(FinishQueriesF32);
HWY_EXPORT(FinishQueriesF64);

namespace dispatch {

void Backward(const BackwardCall<float>& call, const BackwardTasks& plan, core::TaskQueue& tasks, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardF32)(call, plan, tasks, scratch);
}
void Backward(const BackwardCall<double>& call, const BackwardTasks& plan, core::TaskQueue& tasks, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardF64)(call, plan, tasks, scratch);
}
void FinishQueries(const BackwardCall<float>& call, core::TaskQueue& tasks) {
  HWY_DYNAMIC_DISPATCH(FinishQueriesF32)(call, tasks);
}
void FinishQueries(const BackwardCall<double>& call, core::TaskQueue& tasks) {
  HWY_DYNAMIC_DISPATCH(FinishQueriesF64)(call, tasks);
}

}  // namespace dispatch
}  // namespace heed
#endif
