// Linear attention for every SIMD target.
#include "heed/linear_attention.h"

#include <type_traits>

#include "mixers/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mixers/linear_attention/linear_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "mixers/linear_attention/work-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

template <class T>
void LinearOf(const mixers::Call<T>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  core::Arena arena(memory);
  const mixers::Scratch<T> scratch(arena, call);
  LinearWork<T> work(call, scratch);
  mixers::ForEachTask(call, part, tasks, [&](int64_t b, int64_t h, int64_t chunk) {
    if (part == mixers::Part::kWhole) work.Whole(b, h);
    if (part == mixers::Part::kSum) work.Sum(b, h, chunk);
    if (part == mixers::Part::kCarry) work.Carry(b, h);
    if (part == mixers::Part::kFinish) work.Finish(b, h, chunk);
  });
}

void LinearF32(const mixers::Call<float>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  LinearOf(call, part, tasks, memory);
}
void LinearF64(const mixers::Call<double>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  LinearOf(call, part, tasks, memory);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(LinearF32);
HWY_EXPORT(LinearF64);

namespace {

template <class T>
void Work(const mixers::Call<T>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  if constexpr (std::is_same_v<T, float>) {
    HWY_DYNAMIC_DISPATCH(LinearF32)(call, part, tasks, memory);
  } else {
    HWY_DYNAMIC_DISPATCH(LinearF64)(call, part, tasks, memory);
  }
}

}  // namespace

template <class T>
void LinearAttentionForward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearOutputs<T>& outputs,
                            Workspace& workspace, Executor& executor) {
  mixers::RunCall(mixers::CheckedForward(options, inputs, outputs, false), true, Work<T>, workspace, executor);
}

template <class T>
void LinearAttentionBackward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearCotangents<T>& cotangents,
                             const LinearGradients<T>& gradients, Workspace& workspace, Executor& executor) {
  mixers::RunCall(mixers::CheckedBackward(options, inputs, cotangents, gradients, false), true, Work<T>, workspace, executor);
}

template <class T>
void LinearAttentionStep(const LinearStep<T>& step, View<T, 4> state, View<T, 3> out, Executor& executor, bool normalise) {
  mixers::CheckStep(step, state, out, false, normalise);
  mixers::RunStep(mixers::StepCall<T>{step, state, out}, executor);
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses
#define HEED_INSTANTIATE(T)                                                                                               \
  template void LinearAttentionForward(const LinearOptions&, const LinearInputs<T>&, const LinearOutputs<T>&, Workspace&, \
                                       Executor&);                                                                        \
  template void LinearAttentionBackward(const LinearOptions&, const LinearInputs<T>&, const LinearCotangents<T>&,         \
                                        const LinearGradients<T>&, Workspace&, Executor&);                                \
  template void LinearAttentionStep(const LinearStep<T>&, View<T, 4>, View<T, 3>, Executor&, bool)
HEED_INSTANTIATE(float);
HEED_INSTANTIATE(double);
#undef HEED_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace heed
#endif
