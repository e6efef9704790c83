// The forward pass and weights on request: plan, memory, workers. No SIMD here.
#include <cmath>

#include "attention/problem.h"
#include "dispatch/calls.h"
#include "dispatch/kernels.h"
#include "dispatch/layouts.h"

namespace heed::attention {

DropoutThreshold RealisedDropout(const Dropout& dropout) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.probability * 65536));
  return {threshold, 65536.0 / (65536.0 - threshold)};
}

Problem ProblemOf(const Attention& attention, const Plan& plan, const Cut& cut, const core::Input& q, const core::Input& k,
                  const ValuelessKey& valueless_key, bool tangents) {
  return {.attention = attention,
          .plan = plan,
          .cut = cut,
          .dropout = RealisedDropout(attention.dropout),
          .q = q,
          .k = k,
          .layout = LayoutOf(attention, plan.shape(), q.element, tangents),
          .valueless_key = valueless_key};
}

}  // namespace heed::attention

namespace heed::dispatch {

using attention::Cut;

template <class T>
void RunForward(const Attention& attention, const ForwardArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = CheckForward(attention, arrays);
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const bool tangents = arrays.tangents.wanted;
  const Cut cut = attention::CutForward(attention, shape, sizeof(T), tangents);
  const int workers = core::Concurrency(executor);
  ForwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q), workers,
                          tangents ? &arrays.scheme_tangents : nullptr);
  CallMemory memory = layout.Memory(workers);
  memory.Reserve(workspace);
  core::Arena arena(memory.shared());
  T* parts = layout.LayShared(arena);
  layout.schemes().Prepare();

  const attention::ValuelessKey key = position::KeyOfSchemes<T>(attention, tangents ? &arrays.scheme_tangents : nullptr);
  attention::ForwardProblem<T> problem{attention::ProblemOf(attention, plan, cut, arrays.q, arrays.k, key, tangents), arrays};
  problem.scheme_rows = layout.facts().scheme_rows;
  problem.parts = parts;
  const ForwardCall<T> call{problem, layout.schemes(), layout.facts()};
  const ForwardKernels<T> kernels = ForwardKernelsInUse<T>();
  ForwardTasks& tasks = layout.tasks();
  tasks.Sort(plan);
  const double work = (tangents ? 3 : 1) * ScoreWork(shape, attention::LongestReach(attention, shape, 1));
  memory.Run(executor, work, tasks.count(),
             [&](core::TaskQueue& queue, std::byte* scratch) { kernels.forward(call, tasks, queue, scratch); });
  if (cut.splits == 1) return;
  memory.Run(executor, work, tasks.panels(),
             [&](core::TaskQueue& queue, std::byte* scratch) { kernels.merge(call, tasks, queue, scratch); });
}

template <class T>
void RunWeights(const Attention& attention, const WeightsArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = CheckWeights(attention, arrays);
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const Cut cut = attention::CutBackward(shape, sizeof(T), {.one_head = true});
  const int workers = core::Concurrency(executor);
  ForwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q), workers);
  CallMemory memory = layout.Memory(workers);
  memory.Reserve(workspace);
  core::Arena arena(memory.shared());
  layout.LayShared(arena);
  layout.schemes().Prepare();
  const attention::ValuelessKey key = position::KeyOfSchemes<T>(attention);
  const attention::WeightsProblem<T> problem{attention::ProblemOf(attention, plan, cut, arrays.q, arrays.k, key), arrays};
  const WeightsCall<T> call{problem, layout.schemes(), layout.facts()};
  const int64_t tasks = shape.batch * arrays.heads.extent[0] * attention::DivideUp(arrays.rows.extent[0], cut.panel);
  memory.Run(executor, ScoreWork(shape, shape.kv_len), tasks,
             [&](core::TaskQueue& queue, std::byte* scratch) { ForwardKernelsInUse<T>().weights(call, queue, scratch); });
}

template void RunForward(const Attention&, const ForwardArrays<float>&, Workspace&, Executor&);
template void RunForward(const Attention&, const ForwardArrays<double>&, Workspace&, Executor&);
template void RunWeights(const Attention&, const WeightsArrays<float>&, Workspace&, Executor&);
template void RunWeights(const Attention&, const WeightsArrays<double>&, Workspace&, Executor&);

}  // namespace heed::dispatch
