// From a task's number to its place, for the forward pass. Instantiated in forward_f32.cc and forward_f64.cc.
#if defined(HEED_DISPATCH_FORWARD_TASKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_DISPATCH_FORWARD_TASKS_INL_H_
#undef HEED_DISPATCH_FORWARD_TASKS_INL_H_
#else
#define HEED_DISPATCH_FORWARD_TASKS_INL_H_
#endif

#include "attention/forward-inl.h"
#include "attention/weights-inl.h"
#include "position/hook_set-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
void ForwardOrMerge(const attention::ForwardProblem<T>& problem, int64_t task, int64_t next, bool merge, std::byte* memory) {
  core::Arena arena(memory);
  const Shape& shape = problem.plan.shape();
  const attention::Cut& cut = problem.cut;
  attention::ForwardScratch<T> scratch(arena, problem.attention, cut, shape);
  const HookSet<T> hooks(problem, scratch.hooks);
  ForwardPanel<T> panel(problem, scratch, hooks.hooks());
  const int64_t split = merge ? 0 : task % cut.splits, whole = merge ? task : task / cut.splits;
  const int64_t groups = shape.q_heads / cut.group;
  const auto row_of = [&](int64_t panel) { return panel / cut.panels / groups; };
  const auto head_of = [&](int64_t panel) { return panel / cut.panels % groups * cut.group; };
  const int64_t b = row_of(whole), head = head_of(whole), index = whole % cut.panels;
  if (next >= 0 && cut.splits == 1) panel.Expect(row_of(next), head_of(next), next % cut.panels);
  if (cut.splits == 1) {
    panel.Run(b, head, index);
    return;
  }
  T* parts = problem.parts + whole * cut.splits * attention::ForwardScratch<T>::SplitPart(problem.attention, cut, shape);
  if (merge) {
    panel.Merge(b, head, index, parts);
  } else {
    panel.RunSplit(b, head, index, split,
                   parts + split * attention::ForwardScratch<T>::SplitPart(problem.attention, cut, shape));
  }
}

template <class T>
void WeightsOf(const attention::WeightsProblem<T>& problem, int64_t task, std::byte* memory) {
  core::Arena arena(memory);
  attention::ForwardScratch<T> scratch(arena, problem.attention, problem.cut, problem.plan.shape());
  const HookSet<T> hooks(problem, scratch.hooks);
  const int64_t panels = attention::DivideUp(problem.rows.extent[0], problem.cut.panel), heads = problem.heads.extent[0];
  WeightsPanel<T>(problem, scratch, hooks.hooks()).Run(task / panels / heads, task / panels % heads, task % panels);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
