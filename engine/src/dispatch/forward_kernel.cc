// The forward kernel, merging of its splits, and weights on request, for every SIMD target.
#include "dispatch/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/forward_kernel.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/forward-inl.h"
#include "position/hook_set-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// Calls run(panel) with what one thread works with for the time of a call, a ForwardPanel or a WeightsPanel.
template <class Worker, class Problem, class T, class Run>
void WithPanel(const dispatch::CallOf<Problem, T>& call, std::byte* memory, const Run& run) {
  core::Arena arena(memory);
  attention::ForwardScratch<T> scratch(arena, call.facts);
  const HookSet<T> hooks(call.schemes, arena, call.problem, scratch.ahead);
  Worker panel(call.problem, scratch, hooks.hooks());
  run(panel);
}

template <class T>
void ForwardOf(const dispatch::ForwardCall<T>& call, const dispatch::ForwardTasks& plan, core::TaskQueue& tasks,
               std::byte* memory) {
  WithPanel<ForwardPanel<T>>(call, memory, [&](ForwardPanel<T>& panel) {
    tasks.Work([&](int64_t place, int64_t next) {
      const dispatch::ForwardTask task = plan.At(place);
      if (call.problem.cut.splits == 1) {
        panel.Expect(next < 0 ? std::nullopt : std::optional(plan.At(next).place));
        panel.Run(task.place);
      } else {
        panel.RunSplit(task.place, task.split, call.problem.PartOf(task.panel, task.split));
      }
    });
  });
}

template <class T>
void MergeOf(const dispatch::ForwardCall<T>& call, const dispatch::ForwardTasks& plan, core::TaskQueue& tasks,
             std::byte* memory) {
  WithPanel<ForwardPanel<T>>(call, memory, [&](ForwardPanel<T>& panel) {
    tasks.Work([&](int64_t at, int64_t) { panel.Merge(plan.PlaceOf(at), call.problem.PartOf(at, 0)); });
  });
}

template <class T>
void WeightsOf(const dispatch::WeightsCall<T>& call, core::TaskQueue& tasks, std::byte* memory) {
  const attention::WeightsProblem<T>& problem = call.problem;
  const int64_t panels = attention::DivideUp(problem.rows.extent[0], problem.cut.panel), heads = problem.heads.extent[0];
  WithPanel<WeightsPanel<T>>(call, memory, [&](WeightsPanel<T>& panel) {
    tasks.Work([&](int64_t task, int64_t) { panel.Run(task / panels / heads, task / panels % heads, task % panels); });
  });
}

dispatch::ForwardKernels<float> ForwardF32() { return {&ForwardOf<float>, &MergeOf<float>, &WeightsOf<float>}; }
dispatch::ForwardKernels<double> ForwardF64() { return {&ForwardOf<double>, &MergeOf<double>, &WeightsOf<double>}; }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(ForwardF32);
HWY_EXPORT(ForwardF64);

template <>
dispatch::ForwardKernels<float> dispatch::ForwardKernelsInUse() {
  return HWY_DYNAMIC_DISPATCH(ForwardF32)();
}
template <>
dispatch::ForwardKernels<double> dispatch::ForwardKernelsInUse() {
  return HWY_DYNAMIC_DISPATCH(ForwardF64)();
}

}  // namespace heed
#endif
