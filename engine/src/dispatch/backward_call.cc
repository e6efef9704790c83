// The backward pass: plan, memory, workers, final sums. No SIMD here.
#include "attention/problem.h"
#include "dispatch/backward_tasks.h"
#include "dispatch/calls.h"
#include "dispatch/kernels.h"
#include "dispatch/task_costs.h"
#include "dispatch/workers.h"
#include "position/scheme_set.h"

namespace heed::dispatch {
namespace {

using attention::Cut;
using attention::WantedOperands;
using position::Pass;
using position::SchemeSet;

// Multiply-adds of the backward pass over those of the forward pass.
constexpr double kBackwardWork = 2.5;

// What a backward call and its workspace have in common.
template <class T>
class BackwardLayout {
 public:
  BackwardLayout(const Attention& attention, const Cut& cut, const Shape& shape, Elements elements,
                 const WantedOperands& wanted, const BiasGradients<T>& wanted_of_schemes, int workers)
      : schemes_({.attention = attention, .shape = shape, .cut = cut, .pass = Pass::kBackward}, wanted_of_schemes),
        apart_(ApartOf(cut, schemes_.blocks().count(), workers)),
        facts_{.attention = attention,
               .cut = cut,
               .shape = shape,
               .narrow = elements == Elements::kNarrow,
               .scheme_rows = 0,
               .sums_pieces = cut.pieces > 1 && apart_ != Apart::kPieces},
        wanted_(wanted),
        workers_(workers),
        tasks_(schemes_.blocks(), cut, apart_, workers, attention::Uneven(attention)) {}

  SchemeSet<T>& schemes() { return schemes_; }
  const attention::ScratchFacts& facts() const { return facts_; }
  BackwardTasks& tasks() { return tasks_; }
  Apart apart() const { return apart_; }
  // Whether chunks keep their dQ apart.
  bool query_parts() const { return apart_ != Apart::kNothing && facts_.cut.chunks > 1 && wanted_.queries; }
  FinishTasks finish() const {
    return {facts_.shape, facts_.cut, wanted_.queries && (facts_.narrow || query_parts()), apart_ == Apart::kPieces};
  }

  // dQ in T where elements are narrower, and what runs apart; null where there is no need.
  struct Sums {
    T *queries = nullptr, *query_parts = nullptr, *key_parts = nullptr, *value_parts = nullptr;
    bool* piece_sees = nullptr;
  };
  Sums LayShared(core::Arena& arena) {
    tasks_.LayOrder(arena);
    schemes_.LayShared(arena);
    Sums sums;
    const Shape& shape = facts_.shape;
    const Cut& cut = facts_.cut;
    const Packed& packed = facts_.attention.packed;
    const int64_t queries = packed.present() ? packed.query_offsets(shape.batch) : shape.batch * shape.q_len;
    const int64_t keys = packed.present() ? packed.key_offsets(shape.batch) : shape.batch * shape.kv_len;
    if (wanted_.queries && facts_.narrow) sums.queries = arena.Take<T>(shape.q_heads, queries, shape.head_dim);
    if (query_parts()) sums.query_parts = arena.Take<T>(cut.chunks - 1, shape.q_heads, queries, shape.head_dim);
    if (apart_ != Apart::kPieces) return sums;
    if (wanted_.keys) sums.key_parts = arena.Take<T>(cut.pieces, shape.kv_heads, keys, cut.head_dim);
    if (wanted_.values) sums.value_parts = arena.Take<T>(cut.pieces, shape.kv_heads, keys, cut.value_dim);
    sums.piece_sees = arena.Take<bool>(shape.batch, shape.kv_heads, cut.chunks, cut.pieces);
    return sums;
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
  Apart apart_;
  attention::ScratchFacts facts_;
  WantedOperands wanted_;
  int workers_;
  BackwardTasks tasks_;
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
  const Cut cut = attention::CutBackward(shape, sizeof(T), position::LimitsOf(attention));
  const WantedOperands wanted = WantedOperands::Of(arrays.d_q, arrays.d_k, arrays.d_v);
  BackwardLayout<T> layout(attention, cut, shape, ElementsOf<T>(arrays.q), wanted, arrays.d_biases,
                           core::Concurrency(executor));
  if (!wanted.any() && layout.schemes().sums() == 0) return;
  CallMemory memory = layout.Memory();
  memory.Reserve(workspace);
  core::Arena arena(memory.shared());
  const auto sums = layout.LayShared(arena);
  const SchemeSet<T>& schemes = layout.schemes();
  schemes.Prepare();
  const double work = kBackwardWork * ScoreWork(shape, shape.kv_len);
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
  problem.d_q_wide = sums.queries;
  problem.d_q_parts = sums.query_parts;
  problem.d_k_parts = sums.key_parts;
  problem.d_v_parts = sums.value_parts;
  problem.piece_sees = sums.piece_sees;
  BackwardTasks& tasks = layout.tasks();
  tasks.Sort(plan);
  const BackwardCall<T> call{problem, schemes, layout.facts()};
  memory.Run(executor, work, tasks.count(),
             [&](core::TaskQueue& queue, std::byte* scratch) { Backward(call, tasks, queue, scratch); });
  if (const FinishTasks finish = layout.finish(); finish.count() > 0)
    memory.Run(executor, work, finish.count(),
               [&](core::TaskQueue& queue, std::byte*) { FinishGradients(call, finish, queue); });
  for_each_sum([&](int64_t sum) { schemes.Finish(sum); });
}

template <class T>
std::size_t BackwardBytes(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const Cut cut = attention::CutBackward(shape, sizeof(T), position::LimitsOf(attention));
  return BackwardLayout<T>(attention, cut, shape, elements, WantedOperands(), AllGradients<T>(attention), workers)
      .Memory()
      .bytes();
}

template <class T>
CallPlan PlanOfBackward(const Attention& attention, const Shape& shape, Elements elements, int workers) {
  const position::HiddenByScheme hidden(attention, shape);
  const attention::Plan plan(attention, shape, hidden);
  const Cut cut = attention::CutBackward(shape, sizeof(T), position::LimitsOf(attention));
  BackwardLayout<T> layout(attention, cut, shape, elements, WantedOperands(), AllGradients<T>(attention), workers);
  BackwardTasks& tasks = layout.tasks();
  const FinishTasks finish = layout.finish();
  CheckTasks(tasks.count());
  CheckTasks(finish.count());
  const CallMemory memory = layout.Memory();
  core::Arena order;
  tasks.LayOrder(order);
  Workspace held(order.used());
  core::Arena arena(held.data());
  if (order.used() > 0) tasks.LayOrder(arena);
  tasks.Sort(plan);

  BackwardCosts costs({attention, plan, cut, elements == Elements::kNarrow ? 2 : int64_t{sizeof(T)}, sizeof(T)}, layout.apart(),
                      layout.query_parts());
  const double work = kBackwardWork * ScoreWork(shape, shape.kv_len);
  CallPlan call{.steps = {},
                .multiply_adds_per_pair = static_cast<double>(3 * shape.head_dim + 2 * shape.value_dim),
                .shared_bytes = memory.bytes() - static_cast<std::size_t>(workers) * memory.own_bytes(),
                .bytes_of_one_worker = memory.own_bytes()};
  CallStep& step = call.steps.emplace_back();
  step.name = "chunks";
  step.workers = WorkersOf(workers, work, tasks.count());
  step.tasks.reserve(static_cast<std::size_t>(tasks.count()));
  for (int64_t place = 0; place < tasks.count(); ++place) step.tasks.push_back(costs.Of(tasks, place));
  if (finish.count() == 0) return call;
  CallStep& sums = call.steps.emplace_back();
  sums.name = "sums";
  sums.workers = WorkersOf(workers, work, finish.count());
  for (int64_t task = 0; task < finish.count(); ++task) sums.tasks.push_back(costs.OfFinish(finish, task));
  return call;
}

template void RunBackward(const Attention&, const BackwardArrays<float>&, Workspace&, Executor&);
template void RunBackward(const Attention&, const BackwardArrays<double>&, Workspace&, Executor&);
template std::size_t BackwardBytes<float>(const Attention&, const Shape&, Elements, int);
template std::size_t BackwardBytes<double>(const Attention&, const Shape&, Elements, int);
template CallPlan PlanOfBackward<float>(const Attention&, const Shape&, Elements, int);
template CallPlan PlanOfBackward<double>(const Attention&, const Shape&, Elements, int);

}  // namespace heed::dispatch
