// The forward kernel in float for every SIMD target.
#include "dispatch/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/forward_f32.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "dispatch/forward_tasks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

void ForwardTask(const attention::ForwardProblem<float>& problem, int64_t task, int64_t next, bool merge, std::byte* scratch) {
  ForwardOrMerge<float>(problem, task, next, merge, scratch);
}

void WeightsTask(const attention::WeightsProblem<float>& problem, int64_t task, std::byte* scratch) {
  WeightsOf<float>(problem, task, scratch);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(ForwardTask);
HWY_EXPORT(WeightsTask);

namespace dispatch {

void RunForward(const attention::ForwardProblem<float>& problem, int64_t task, int64_t next, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardTask)(problem, task, next, false, scratch);
}

void RunMerge(const attention::ForwardProblem<float>& problem, int64_t task, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardTask)(problem, task, -1, true, scratch);
}

void RunWeights(const attention::WeightsProblem<float>& problem, int64_t task, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(WeightsTask)(problem, task, scratch);
}

}  // namespace dispatch
}  // namespace heed
#endif
