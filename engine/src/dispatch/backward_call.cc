// The backward pass: plan, memory, workers, final sums. No SIMD here.
#include "attention/problem.h"
#include "dispatch/backward_tasks.h"
#include "dispatch/calls.h"
#include "dispatch/kernels.h"
#include "dispatch/workers.h"
#include "position/scheme_set.h"

namespace heed::dispatch {
namespace {

using attention::Cut;
using attention::WantedOperands;
using position::Pass;
using position::SchemeSet;

// What a backward call and its workspace have in common.
template <class T>
class BackwardLayout {
 public:
  BackwardLayout(const Attention& attention, const Cut& cut, const Shape& shape, Elements elements,
                 const WantedOperands& wanted, const BiasGradients<T>& wanted_of_schemes, int workers)
      : schemes_({.attention = attention, .shape = shape, .cut = cut, .pass = Pass::kBackward}, wanted_of_schemes),
        facts_{.attention = attention, .cut = cut, .shape = shape, .narrow = elements == Elements::kNarrow, .scheme_rows = 0},
        wanted_(wanted),
        workers_(workers),
        apart_(cut.chunks > 1 && workers > 1 && schemes_.blocks().count() < 2 * static_cast<int64_t>(workers)) {}

  SchemeSet<T>& schemes() { return schemes_; }
  const attention::ScratchFacts& facts() const { return facts_; }
  // Whether chunks of one head may run at the same time: with fewer blocks than workers need. Their dQ is then kept apart too;
  // the order of the sums is the same either way.
  bool apart() const { return apart_; }

  // dQ in T where elements are narrower, and the parts of it where chunks run apart; null where there is no need.
  struct Queries {
    T *wide = nullptr, *parts = nullptr;
  };
  Queries LayShared(core::Arena& arena) {
    schemes_.LayShared(arena);
    Queries queries;
    if (!wanted_.queries) return queries;
    const Shape& shape = facts_.shape;
    const Packed& packed = facts_.attention.packed;
    const int64_t tokens = packed.present() ? packed.query_offsets(shape.batch) : shape.batch * shape.q_len;
    const int64_t size = shape.q_heads * tokens * shape.head_dim;
    if (facts_.narrow) queries.wide = arena.Take<T>(size);
    if (apart_) queries.parts = arena.Take<T>(facts_.cut.chunks - 1, size);
    return queries;
  }
  CallMemory Memory() {
    core::Arena shared, own;
    LayShared(shared);
    attention::BackwardScratch<T>(own, facts_, wanted_);
    schemes_.LayScratch(own);
    return {shared, own, workers_};
  }

 private:
  SchemeSet<T> schemes_;
  attention::ScratchFacts facts_;
  WantedOperands wanted_;
  int workers_;
  bool apart_;
};

// All gradients that a call may ask for, by presence alone.
template <class T>
BiasGradients<T> AllGradients(const Attention& attention) {
  static T somewhere{};
  BiasGradients<T> all;
  position::ForEachSchemeGradient(attention, all, [](const char*, auto& gradient, const auto* table) {
    if (!table) return;
    std::visit([&](const auto& t) { gradient.extent = t.extent; }, *table);
    gradient.data = &somewhere;
  });
  return all;
}

}  // namespace

template <class T>
void RunBackward(const Attention& attention, const BackwardArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = CheckBackward(attention, arrays);
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const Cut cut = attention::CutBackward(shape, sizeof(T), position::TakesAllKeys(attention));
  const WantedOperands wanted = WantedOperands::Of(arrays.d_q, arrays.d_k, arrays.d_v);
  BackwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q), wanted, arrays.d_biases,
                           core::Concurrency(executor));
  if (!wanted.any() && layout.schemes().sums() == 0) return;
  CallMemory memory = layout.Memory();
  memory.Reserve(workspace);
  core::Arena arena(memory.shared());
  const auto queries = layout.LayShared(arena);
  const SchemeSet<T>& schemes = layout.schemes();
  schemes.Prepare();
  const double work = 2.5 * ScoreWork(shape);
  const auto for_each_sum = [&](const auto& visit) {
    memory.Run(executor, work, schemes.sums(),
               [&](core::TaskQueue& queue, std::byte*) { queue.Work([&](int64_t sum, int64_t) { visit(sum); }); });
  };
  for_each_sum([&](int64_t sum) { schemes.Clear(sum); });

  attention::BackwardProblem<T> problem{attention::ProblemOf(attention, plan, cut, arrays.q, arrays.k)};
  problem.v = arrays.v;
  problem.out = arrays.out;
  problem.lse = arrays.lse;
  problem.d_out = arrays.d_out;
  problem.d_lse = arrays.d_lse;
  problem.remainder = arrays.remainder;
  problem.correction = arrays.correction;
  problem.d_q = arrays.d_q;
  problem.d_k = arrays.d_k;
  problem.d_v = arrays.d_v;
  problem.wants_scores = wanted.queries || wanted.keys || schemes.wants_scores();
  problem.d_q_wide = queries.wide;
  problem.d_q_parts = queries.parts;
  const BackwardTasks tasks(schemes.blocks(), cut.chunks, layout.apart());
  const BackwardCall<T> call{problem, schemes, layout.facts()};
  memory.Run(executor, work, tasks.count(),
             [&](core::TaskQueue& queue, std::byte* scratch) { Backward(call, tasks, queue, scratch); });
  if (queries.wide || queries.parts)
    memory.Run(executor, work, shape.batch * shape.q_heads,
               [&](core::TaskQueue& queue, std::byte*) { FinishQueries(call, queue); });
  for_each_sum([&](int64_t sum) { schemes.Finish(sum); });
}

template <class T>
std::size_t BackwardBytes(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const Cut cut = attention::CutBackward(shape, sizeof(T), position::TakesAllKeys(attention));
  return BackwardLayout<T>(attention, cut, shape, elements, WantedOperands(), AllGradients<T>(attention), workers)
      .Memory()
      .bytes();
}

template void RunBackward(const Attention&, const BackwardArrays<float>&, Workspace&, Executor&);
template void RunBackward(const Attention&, const BackwardArrays<double>&, Workspace&, Executor&);
template std::size_t BackwardBytes<float>(const Attention&, const Shape&, Elements, int);
template std::size_t BackwardBytes<double>(const Attention&, const Shape&, Elements, int);

}  // namespace heed::dispatch
