// The backward pass: plan, memory, workers, final sums. No SIMD here.
#include "attention/problem.h"
#include "dispatch/backward_layout.h"
#include "dispatch/calls.h"
#include "dispatch/kernels.h"
#include "dispatch/key_gradients.h"
#include "position/valueless_key.h"

namespace heed::dispatch {

using attention::Cut;
using attention::WantedOperands;

template <class T>
void RunBackward(const Attention& attention, const BackwardArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = CheckBackward(attention, arrays);
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const Cut cut = attention::CutBackward(shape, sizeof(T), position::LimitsOf(attention));
  const WantedOperands wanted = WantedOperands::Of(arrays.d_q, arrays.d_k, arrays.d_v);
  const bool tangents = arrays.tangents.wanted;
  BackwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q), wanted, arrays.d_biases, core::Concurrency(executor),
                           tangents ? &arrays.scheme_tangents : nullptr);
  // Keys without values meet no tile.
  const bool tiles = wanted.any() || layout.schemes().sums() > 0;
  if (!tiles && layout.schemes().key_sums() == 0) return;
  CallMemory memory = layout.Memory();
  memory.Reserve(workspace);
  core::Arena arena(memory.shared());
  const attention::BackwardSums<T> sums = layout.LayShared(arena);
  const position::SchemeSet<T>& schemes = layout.schemes();
  schemes.Prepare();
  const double work = (tangents ? kBackwardTangentWork : kBackwardWork) * ScoreWork(shape, shape.kv_len);
  const auto for_each_sum = [&](const auto& visit) {
    memory.Run(executor, work, schemes.sums(),
               [&](core::TaskQueue& queue, std::byte*) { queue.Work([&](int64_t sum, int64_t) { visit(sum); }); });
  };
  for_each_sum([&](int64_t sum) { schemes.Clear(sum); });

  const position::KeyOfScheme key(attention);
  attention::BackwardProblem<T> problem{attention::ProblemOf(attention, plan, cut, arrays.q, arrays.k, key.IfAny(), tangents),
                                        arrays, sums};
  problem.wants_scores = wanted.queries || wanted.keys || schemes.wants_scores();
  if (const int64_t keys = schemes.key_sums(); keys > 0) {
    const KeyGradients<T> gradients(problem);
    memory.Run(executor, work, keys, [&](core::TaskQueue& queue, std::byte*) {
      queue.Work([&](int64_t sum, int64_t) { schemes.SumKey(gradients, sum); });
    });
  }
  if (!tiles) return;
  BackwardTasks& tasks = layout.tasks();
  tasks.Sort(plan);
  const BackwardCall<T> call{problem, schemes, layout.facts()};
  const BackwardKernels<T> kernels = BackwardKernelsInUse<T>();
  memory.Run(executor, work, tasks.count(),
             [&](core::TaskQueue& queue, std::byte* scratch) { kernels.backward(call, tasks, queue, scratch); });
  if (const FinishTasks finish = layout.finish(); finish.count() > 0)
    memory.Run(executor, work, finish.count(),
               [&](core::TaskQueue& queue, std::byte*) { kernels.finish(call, finish, queue); });
  for_each_sum([&](int64_t sum) { schemes.Finish(sum); });
}

template <class T>
std::size_t BackwardBytes(const Attention& attention, const Shape& shape, Elements elements, int workers, bool tangents) {
  const BiasGradients<T> none;
  const Cut cut = attention::CutBackward(shape, sizeof(T), position::LimitsOf(attention));
  return BackwardLayout<T>(attention, cut, shape, elements, WantedOperands(), AllGradients<T>(attention, tangents), workers,
                           tangents ? &none : nullptr)
      .Memory()
      .bytes();
}

template void RunBackward(const Attention&, const BackwardArrays<float>&, Workspace&, Executor&);
template void RunBackward(const Attention&, const BackwardArrays<double>&, Workspace&, Executor&);
template std::size_t BackwardBytes<float>(const Attention&, const Shape&, Elements, int, bool);
template std::size_t BackwardBytes<double>(const Attention&, const Shape&, Elements, int, bool);

}  // namespace heed::dispatch
