// The forward kernel in float for every SIMD target.
#include <optional>

#include "dispatch/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/forward_f32.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/forward-inl.h"
#include "position/offset_bias-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

void ForwardTask(const attention::ForwardProblem<float>& problem, int64_t task, std::byte* memory) {
  core::Arena arena(memory);
  const Shape& shape = problem.plan.shape();
  attention::ForwardScratch<float> scratch(arena, problem.cut, shape);
  std::optional<OffsetBias<float>> bias;
  if (problem.attention.relative_bias)
    bias.emplace(*problem.attention.relative_bias, problem.plan.first_offset(), scratch.bias);
  const int64_t row = task / problem.cut.panels;
  ForwardPanel<float> panel(problem, scratch, bias ? &*bias : nullptr);
  panel.Run(row / shape.q_heads, row % shape.q_heads, task % problem.cut.panels);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(ForwardTask);

namespace dispatch {
void RunForward(const attention::ForwardProblem<float>& problem, int64_t task, std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(ForwardTask)(problem, task, scratch);
}
}  // namespace dispatch
}  // namespace heed
#endif
