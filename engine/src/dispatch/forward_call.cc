// The forward pass and weights on request: plan, memory, workers. No SIMD here.
#include <cmath>

#include "attention/problem.h"
#include "dispatch/calls.h"
#include "dispatch/kernels.h"
#include "dispatch/workers.h"
#include "position/scheme_set.h"

namespace heed::attention {

DropoutThreshold RealisedDropout(const Dropout& dropout) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.probability * 65536));
  return {threshold, 65536.0 / (65536.0 - threshold)};
}

Problem ProblemOf(const Attention& attention, const Plan& plan, const Cut& cut, const core::Input& q, const core::Input& k) {
  return {.attention = attention, .plan = plan, .cut = cut, .dropout = RealisedDropout(attention.dropout), .q = q, .k = k};
}

}  // namespace heed::attention

namespace heed::dispatch {
namespace {

using attention::Cut;
using position::Pass;
using position::SchemeSet;

// What a forward call and its workspace have in common.
template <class T>
class ForwardLayout {
 public:
  ForwardLayout(const Attention& attention, const Cut& cut, const Shape& shape, Elements elements)
      : schemes_({.attention = attention, .shape = shape, .cut = cut, .pass = Pass::kForward}),
        facts_{.attention = attention,
               .cut = cut,
               .shape = shape,
               .narrow = elements == Elements::kNarrow,
               .scheme_rows = schemes_.output_rows()} {}

  SchemeSet<T>& schemes() { return schemes_; }
  const attention::ScratchFacts& facts() const { return facts_; }

  // Lays out what all workers share; returns the partial states of all splits, null where panels are not split.
  T* LayShared(core::Arena& arena) {
    schemes_.LayShared(arena);
    const Cut& cut = facts_.cut;
    const Shape& shape = facts_.shape;
    if (cut.splits == 1) return nullptr;
    return arena.Take<T>(shape.batch, shape.q_heads / cut.group, cut.panels, cut.splits,
                         attention::ForwardScratch<T>::SplitPart(shape, cut, facts_.scheme_rows));
  }
  CallMemory Memory(int workers) {
    core::Arena shared, own;
    LayShared(shared);
    attention::ForwardScratch<T>(own, facts_);
    schemes_.LayScratch(own);
    return {shared, own, workers};
  }

 private:
  SchemeSet<T> schemes_;
  attention::ScratchFacts facts_;
};

}  // namespace

template <class T>
void RunForward(const Attention& attention, const ForwardArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = CheckForward(attention, arrays);
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const Cut cut = attention::CutForward(attention, shape, sizeof(T));
  ForwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q));
  CallMemory memory = layout.Memory(core::Concurrency(executor));
  memory.Reserve(workspace);
  core::Arena arena(memory.shared());
  T* parts = layout.LayShared(arena);
  layout.schemes().Prepare();

  attention::ForwardProblem<T> problem{attention::ProblemOf(attention, plan, cut, arrays.q, arrays.k)};
  problem.v = arrays.v;
  problem.out = arrays.out;
  problem.lse = arrays.lse;
  problem.statistics = arrays.statistics;
  problem.remainder = arrays.remainder;
  problem.correction = arrays.correction;
  problem.scheme_rows = layout.schemes().output_rows();
  problem.parts = parts;
  const ForwardCall<T> call{problem, layout.schemes(), layout.facts()};
  const int64_t rows = core::CheckedProduct(shape.batch, shape.q_heads / cut.group, "q");
  const int64_t panels = core::CheckedProduct(rows, cut.panels, "q"), tasks = core::CheckedProduct(panels, cut.splits, "q");
  memory.Run(executor, ScoreWork(shape), tasks,
             [&](core::TaskQueue& queue, std::byte* scratch) { Forward(call, queue, scratch); });
  if (cut.splits == 1) return;
  memory.Run(executor, ScoreWork(shape), panels,
             [&](core::TaskQueue& queue, std::byte* scratch) { Merge(call, queue, scratch); });
}

template <class T>
void RunWeights(const Attention& attention, const WeightsArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = CheckWeights(attention, arrays);
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const Cut cut = attention::CutBackward(shape, sizeof(T));
  ForwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q));
  CallMemory memory = layout.Memory(core::Concurrency(executor));
  memory.Reserve(workspace);
  core::Arena arena(memory.shared());
  layout.LayShared(arena);
  layout.schemes().Prepare();
  attention::WeightsProblem<T> problem{attention::ProblemOf(attention, plan, cut, arrays.q, arrays.k)};
  problem.lse = arrays.lse;
  problem.heads = arrays.heads;
  problem.rows = arrays.rows;
  problem.weights = arrays.weights;
  const int64_t tasks = shape.batch * arrays.heads.extent[0] * attention::DivideUp(arrays.rows.extent[0], cut.panel);
  memory.Run(executor, ScoreWork(shape), tasks, [&](core::TaskQueue& queue, std::byte* scratch) {
    Weights(WeightsCall<T>{problem, layout.schemes(), layout.facts()}, queue, scratch);
  });
}

template <class T>
std::size_t ForwardBytes(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const Cut cut = attention::CutForward(attention, shape, sizeof(T));
  return ForwardLayout<T>(attention, cut, shape, elements).Memory(workers).bytes();
}

template void RunForward(const Attention&, const ForwardArrays<float>&, Workspace&, Executor&);
template void RunForward(const Attention&, const ForwardArrays<double>&, Workspace&, Executor&);
template void RunWeights(const Attention&, const WeightsArrays<float>&, Workspace&, Executor&);
template void RunWeights(const Attention&, const WeightsArrays<double>&, Workspace&, Executor&);
template std::size_t ForwardBytes<float>(const Attention&, const Shape&, Elements, int);
template std::size_t ForwardBytes<double>(const Attention&, const Shape&, Elements, int);

}  // namespace heed::dispatch
