// The gated delta rule for every SIMD target.
#include "heed/gated_delta.h"

#include <type_traits>

#include "mixers/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mixers/gated_delta/gated_delta.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "mixers/gated_delta/work-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
void DeltaOf(const mixers::Call<T>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  core::Arena arena(memory);
  const mixers::Scratch<T> scratch(arena, call);
  DeltaWork<T> work(call, scratch);
  mixers::ForEachTask(call, part, tasks, [&](int64_t b, int64_t h, int64_t) { work.Whole(b, h); });
}

void DeltaF32(const mixers::Call<float>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  DeltaOf(call, part, tasks, memory);
}
void DeltaF64(const mixers::Call<double>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  DeltaOf(call, part, tasks, memory);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(DeltaF32);
HWY_EXPORT(DeltaF64);

namespace {

template <class T>
void Work(const mixers::Call<T>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(DeltaF32)(call, part, tasks, memory);
  } else {
    HWY_DYNAMIC_DISPATCH(DeltaF64)(call, part, tasks, memory);
  }
}

}  // namespace

template <class T>
void GatedDeltaForward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearOutputs<T>& outputs,
                       Workspace& workspace, Executor& executor) {
  mixers::RunCall(mixers::CheckedForward(options, inputs, outputs, true), false, Work<T>, workspace, executor);
}

template <class T>
void GatedDeltaBackward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearCotangents<T>& cotangents,
                        const LinearGradients<T>& gradients, Workspace& workspace, Executor& executor) {
  mixers::RunCall(mixers::CheckedBackward(options, inputs, cotangents, gradients, true), false, Work<T>, workspace, executor);
}

template <class T>
void GatedDeltaStep(const LinearStep<T>& step, View<T, 4> state, View<T, 3> out, Executor& executor) {
  mixers::CheckStep(step, state, out, true, false);
  mixers::RunStep(mixers::StepCall<T>{step, state, out}, executor);
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses
#define HEED_INSTANTIATE(T)                                                                                          \
  template void GatedDeltaForward(const LinearOptions&, const LinearInputs<T>&, const LinearOutputs<T>&, Workspace&, \
                                  Executor&);                                                                        \
  template void GatedDeltaBackward(const LinearOptions&, const LinearInputs<T>&, const LinearCotangents<T>&,         \
                                   const LinearGradients<T>&, Workspace&, Executor&);                                \
  template void GatedDeltaStep(const LinearStep<T>&, View<T, 4>, View<T, 3>, Executor&)
HEED_INSTANTIATE(float);
HEED_INSTANTIATE(double);
#undef HEED_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace heed
#endif
