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

// What one thread works with for the time of a call.
template <class T>
class ForwardWorker {
 public:
  ForwardWorker(const dispatch::ForwardCall<T>& call, const dispatch::ForwardTasks& plan, std::byte* memory)
      : problem_(call.problem),
        plan_(plan),
        arena_(memory),
        scratch_(arena_, call.facts),
        hooks_(call.schemes, arena_, problem_, scratch_.ahead),
        panel_(problem_, scratch_, hooks_.hooks()) {}

  void Run(core::TaskQueue& tasks) {
    tasks.Work([&](int64_t place, int64_t next) {
      const dispatch::ForwardTask task = plan_.At(place);
      if (problem_.cut.splits == 1) {
        panel_.Expect(next < 0 ? std::nullopt : std::optional(plan_.At(next).place));
        panel_.Run(task.place);
      } else {
        panel_.RunSplit(task.place, task.split, PartsOf(task.panel) + task.split * PartSize());
      }
    });
  }

  void Merge(core::TaskQueue& tasks) {
    tasks.Work([&](int64_t panel, int64_t) { panel_.Merge(plan_.PlaceOf(panel), PartsOf(panel)); });
  }

 private:
  int64_t PartSize() const {
    return attention::ForwardScratch<T>::SplitPart(problem_.plan.shape(), problem_.cut, problem_.scheme_rows);
  }
  T* PartsOf(int64_t panel) const { return problem_.parts + panel * problem_.cut.splits * PartSize(); }

  const attention::ForwardProblem<T>& problem_;
  const dispatch::ForwardTasks& plan_;
  core::Arena arena_;
  attention::ForwardScratch<T> scratch_;
  HookSet<T> hooks_;
  ForwardPanel<T> panel_;
};

template <class T>
void ForwardOf(const dispatch::ForwardCall<T>& call, const dispatch::ForwardTasks& plan, core::TaskQueue& tasks,
               std::byte* memory) {
  ForwardWorker<T>(call, plan, memory).Run(tasks);
}

template <class T>
void MergeOf(const dispatch::ForwardCall<T>& call, const dispatch::ForwardTasks& plan, core::TaskQueue& tasks,
             std::byte* memory) {
  ForwardWorker<T>(call, plan, memory).Merge(tasks);
}

template <class T>
void WeightsOf(const dispatch::WeightsCall<T>& call, core::TaskQueue& tasks, std::byte* memory) {
  const attention::WeightsProblem<T>& problem = call.problem;
  core::Arena arena(memory);
  attention::ForwardScratch<T> scratch(arena, call.facts);
  const HookSet<T> hooks(call.schemes, arena, problem, scratch.ahead);
  WeightsPanel<T> panel(problem, scratch, hooks.hooks());
  const int64_t panels = attention::DivideUp(problem.rows.extent[0], problem.cut.panel), heads = problem.heads.extent[0];
  tasks.Work([&](int64_t task, int64_t) { panel.Run(task / panels / heads, task / panels % heads, task % panels); });
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
