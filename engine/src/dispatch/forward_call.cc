// The forward pass and weights on request: plan, memory, workers. No SIMD here.
#include <cmath>

#include "attention/problem.h"
#include "dispatch/calls.h"
#include "dispatch/kernels.h"
#include "dispatch/task_costs.h"
#include "dispatch/workers.h"
#include "position/scheme_set.h"

namespace heed::attention {

DropoutThreshold RealisedDropout(const Dropout& dropout) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.probability * 65536));
  return {threshold, 65536.0 / (65536.0 - threshold)};
}

Problem ProblemOf(const Attention& attention, const Plan& plan, const Cut& cut, const core::Input& q, const core::Input& k) {
  Problem problem{
      .attention = attention, .plan = plan, .cut = cut, .dropout = RealisedDropout(attention.dropout), .q = q, .k = k};
  if (q.element == core::Element::kBFloat16 && !HasFewQueries(plan.shape()))
    problem.pairs = attention.precision == Precision::kFused ? PairUse::kAll : PairUse::kInputs;
  return problem;
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
  ForwardLayout(const Attention& attention, const Cut& cut, const Shape& shape, Elements elements, int workers)
      : tasks_(shape, cut, workers, attention::Uneven(attention)),
        schemes_({.attention = attention, .shape = shape, .cut = cut, .pass = Pass::kForward}),
        facts_{.attention = attention,
               .cut = cut,
               .shape = shape,
               .narrow = elements == Elements::kNarrow,
               .scheme_rows = schemes_.output_rows()} {}

  SchemeSet<T>& schemes() { return schemes_; }
  const attention::ScratchFacts& facts() const { return facts_; }
  ForwardTasks& tasks() { return tasks_; }
  // Elements that one split hands on.
  int64_t PartSize() const { return attention::ForwardScratch<T>::SplitPart(facts_.shape, facts_.cut, facts_.scheme_rows); }

  // Lays out what all workers share; returns the partial states of all splits, null where panels are not split.
  T* LayShared(core::Arena& arena) {
    tasks_.LayOrder(arena);
    schemes_.LayShared(arena);
    const Cut& cut = facts_.cut;
    const Shape& shape = facts_.shape;
    if (cut.splits == 1) return nullptr;
    return arena.Take<T>(shape.batch, shape.q_heads / cut.group, cut.panels, cut.splits, PartSize());
  }
  CallMemory Memory(int workers) {
    core::Arena shared, own;
    LayShared(shared);
    attention::ForwardScratch<T>(own, facts_);
    schemes_.LayScratch(own);
    return {shared, own, workers};
  }

 private:
  ForwardTasks tasks_;
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
  const int workers = core::Concurrency(executor);
  ForwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q), workers);
  CallMemory memory = layout.Memory(workers);
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
  ForwardTasks& tasks = layout.tasks();
  tasks.Sort(plan);
  const double work = ScoreWork(shape, attention::LongestReach(attention, shape, 1));
  memory.Run(executor, work, tasks.count(),
             [&](core::TaskQueue& queue, std::byte* scratch) { Forward(call, tasks, queue, scratch); });
  if (cut.splits == 1) return;
  memory.Run(executor, work, tasks.panels(),
             [&](core::TaskQueue& queue, std::byte* scratch) { Merge(call, tasks, queue, scratch); });
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
  attention::WeightsProblem<T> problem{attention::ProblemOf(attention, plan, cut, arrays.q, arrays.k)};
  problem.lse = arrays.lse;
  problem.heads = arrays.heads;
  problem.rows = arrays.rows;
  problem.weights = arrays.weights;
  const int64_t tasks = shape.batch * arrays.heads.extent[0] * attention::DivideUp(arrays.rows.extent[0], cut.panel);
  memory.Run(executor, ScoreWork(shape, shape.kv_len), tasks, [&](core::TaskQueue& queue, std::byte* scratch) {
    Weights(WeightsCall<T>{problem, layout.schemes(), layout.facts()}, queue, scratch);
  });
}

template <class T>
std::size_t ForwardBytes(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const Cut cut = attention::CutForward(attention, shape, sizeof(T));
  return ForwardLayout<T>(attention, cut, shape, elements, workers).Memory(workers).bytes();
}

template <class T>
CallPlan PlanOfForward(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const Cut cut = attention::CutForward(attention, shape, sizeof(T));
  ForwardLayout<T> layout(attention, cut, shape, elements, workers);
  ForwardTasks& tasks = layout.tasks();
  CheckTasks(tasks.count());
  const CallMemory memory = layout.Memory(workers);
  core::Arena order;
  tasks.LayOrder(order);
  Workspace held(order.used());
  core::Arena arena(held.data());
  if (order.used() > 0) tasks.LayOrder(arena);
  tasks.Sort(plan);

  ForwardCosts costs({attention, plan, cut, elements == Elements::kNarrow ? 2 : int64_t{sizeof(T)}, sizeof(T)},
                     layout.PartSize() * int64_t{sizeof(T)});
  const double work = ScoreWork(shape, attention::LongestReach(attention, shape, 1));
  CallPlan call{.steps = {},
                .multiply_adds_per_pair = static_cast<double>(shape.head_dim + shape.value_dim),
                .shared_bytes = memory.bytes() - static_cast<std::size_t>(workers) * memory.own_bytes(),
                .bytes_of_one_worker = memory.own_bytes()};
  CallStep& step = call.steps.emplace_back();
  step.name = cut.splits == 1 ? "panels" : "splits";
  step.workers = WorkersOf(workers, work, tasks.count());
  step.tasks.reserve(static_cast<std::size_t>(tasks.count()));
  for (int64_t place = 0; place < tasks.count(); ++place) step.tasks.push_back(costs.Of(tasks.At(place)));
  if (cut.splits == 1) return call;
  CallStep& merge = call.steps.emplace_back();
  merge.name = "merge";
  merge.workers = WorkersOf(workers, work, tasks.panels());
  for (int64_t panel = 0; panel < tasks.panels(); ++panel) merge.tasks.push_back(costs.OfMerge(tasks.PlaceOf(panel)));
  return call;
}

template void RunForward(const Attention&, const ForwardArrays<float>&, Workspace&, Executor&);
template void RunForward(const Attention&, const ForwardArrays<double>&, Workspace&, Executor&);
template void RunWeights(const Attention&, const WeightsArrays<float>&, Workspace&, Executor&);
template void RunWeights(const Attention&, const WeightsArrays<double>&, Workspace&, Executor&);
template std::size_t ForwardBytes<float>(const Attention&, const Shape&, Elements, int);
template std::size_t ForwardBytes<double>(const Attention&, const Shape&, Elements, int);
template CallPlan PlanOfForward<float>(const Attention&, const Shape&, Elements, int);
template CallPlan PlanOfForward<double>(const Attention&, const Shape&, Elements, int);

}  // namespace heed::dispatch
