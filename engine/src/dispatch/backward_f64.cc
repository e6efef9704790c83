// The backward kernel in double for every SIMD target.
#include <optional>

#include "dispatch/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dispatch/backward_f64.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "attention/backward-inl.h"
#include "position/offset_bias-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

void BackwardTask(const attention::BackwardProblem<double>& problem, int64_t b, int64_t kv_head, int64_t chunk,
                  std::byte* memory) {
  core::Arena arena(memory);
  attention::BackwardScratch<double> scratch(arena, problem.cut, problem.plan.shape());
  std::optional<OffsetBias<double>> bias;
  if (problem.attention.relative_bias) {
    bias.emplace(*problem.attention.relative_bias, problem.plan.first_offset(), scratch.bias);
    if (problem.d_bias_parts) {
      const int64_t head_stride = problem.cut.chunks * problem.bias_columns;
      bias->WantGradient(problem.BiasPart(0, 0, chunk), problem.plan.shape().q_heads * head_stride, head_stride, scratch.d_bias,
                         problem.cut.tile + problem.cut.panel + attention::kLaneQuantum);
    }
  }
  BackwardChunk<double>(problem, scratch, bias ? &*bias : nullptr).Run(b, kv_head, chunk);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(BackwardTask);

namespace dispatch {
void RunBackward(const attention::BackwardProblem<double>& problem, int64_t b, int64_t kv_head, int64_t chunk,
                 std::byte* scratch) {
  HWY_DYNAMIC_DISPATCH(BackwardTask)(problem, b, kv_head, chunk, scratch);
}
}  // namespace dispatch
}  // namespace heed
#endif
