// The way of a call: check, plan, dispatch. No SIMD here.
#include "heed/attention.h"

#include <atomic>
#include <cmath>
#include <optional>

#include "attention/problem.h"
#include "core/arena.h"
#include "core/refuse.h"
#include "core/task_loop.h"
#include "core/validation.h"
#include "dispatch/bias_gradients.h"
#include "dispatch/kernels.h"
#include "heed/thread_workspace.h"
#include "simd/tuning.h"

namespace heed {

namespace attention {

DropoutThreshold RealisedDropout(const Dropout& dropout) {
  const auto threshold = static_cast<uint32_t>(std::lround(dropout.probability * 65536));
  return {threshold, 65536.0 / (65536.0 - threshold)};
}

}  // namespace attention

namespace {

using attention::Cut;

// Multiply-adds of the score products, the measure of a call's size.
double ScoreWork(const Shape& shape) {
  return static_cast<double>(shape.batch) * static_cast<double>(shape.q_heads) * static_cast<double>(shape.q_len) *
         static_cast<double>(shape.kv_len) * static_cast<double>(shape.head_dim + shape.value_dim);
}

// Where workers find memory of their own: `workers` areas of `bytes` each.
struct Scratch {
  std::byte* data;
  std::size_t bytes;
  int workers;

  std::byte* Of(int64_t worker) const { return data + static_cast<std::size_t>(worker) * bytes; }
};

// Makes room for the shared memory that an arena counted and for the areas of all workers.
std::size_t WorkspaceBytes(const core::Arena& shared, std::size_t bytes, int workers) {
  core::Arena arena;
  arena.Take<std::byte>(static_cast<int64_t>(shared.used()));
  arena.Take<std::byte>(static_cast<int64_t>(bytes), workers);
  return arena.used();
}

// Runs tasks in any order, each worker with its own scratch. Workers take the next task when they are free: uneven tasks
// (causal panels) then balance, and since no task depends on another the results do not show who ran it. A worker takes its
// next task before it runs one: task(i, next, scratch), next -1 for the last.
template <class Task>
void RunTasks(Executor& executor, double work, int64_t tasks, const Scratch& scratch, const Task& task) {
  const int64_t workers = work < simd::kSerialWork ? 1 : std::min<int64_t>(scratch.workers, tasks);
  std::atomic<int64_t> next{0};
  core::RunWorkers(executor, workers, [&](int64_t worker) {
    for (int64_t i = next.fetch_add(1); i < tasks;) {
      const int64_t after = next.fetch_add(1);
      task(i, after < tasks ? after : -1, scratch.Of(worker));
      i = after;
    }
  });
}

template <class Layout, class... Wanted>
std::size_t ScratchBytes(const Attention& attention, const Cut& cut, const Shape& shape, Wanted... wanted) {
  core::Arena arena;
  Layout layout(arena, attention, cut, shape, wanted...);
  return arena.used();
}

// Partial states of all splits; null where panels are not split.
template <class T>
T* TakeSplitParts(core::Arena& arena, const Attention& attention, const Cut& cut, const Shape& shape) {
  if (cut.splits == 1) return nullptr;
  return arena.Take<T>(shape.batch, shape.q_heads / cut.group, cut.panels, cut.splits,
                       attention::ForwardScratch<T>::SplitPart(attention, cut, shape));
}

template <class T>
void RunForward(const Attention& attention, const core::ForwardArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = core::CheckForward(attention, arrays);
  const attention::Plan plan(attention, shape);
  const Cut cut = attention::CutForward(attention, shape, sizeof(T));
  const std::size_t bytes = ScratchBytes<attention::ForwardScratch<T>>(attention, cut, shape);
  core::Arena counter;
  TakeSplitParts<T>(counter, attention, cut, shape);
  const int workers = core::Concurrency(executor);
  workspace.Reserve(WorkspaceBytes(counter, bytes, workers));
  core::Arena arena(workspace.data());
  T* parts = TakeSplitParts<T>(arena, attention, cut, shape);
  const Scratch scratch{workspace.data() + arena.used(), bytes, workers};

  const attention::ForwardProblem<T> problem{
      {attention, plan, cut, attention::RealisedDropout(attention.dropout), arrays.q, arrays.k},
      arrays.v,
      arrays.out,
      arrays.lse,
      arrays.statistics,
      arrays.remainder,
      arrays.correction,
      parts};
  const int64_t rows = core::CheckedProduct(shape.batch, shape.q_heads / cut.group, "q");
  const int64_t panels = core::CheckedProduct(rows, cut.panels, "q"), tasks = core::CheckedProduct(panels, cut.splits, "q");
  // Last panels first: under causality they are the longest.
  RunTasks(executor, ScoreWork(shape), tasks, scratch, [&](int64_t task, int64_t next, std::byte* own) {
    dispatch::RunForward(problem, tasks - 1 - task, next < 0 ? -1 : tasks - 1 - next, own);
  });
  if (cut.splits == 1) return;
  RunTasks(executor, ScoreWork(shape), panels, scratch,
           [&](int64_t task, int64_t, std::byte* own) { dispatch::RunMerge(problem, task, own); });
}

template <class T>
void RunWeights(const Attention& attention, const core::WeightsArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = core::CheckWeights(attention, arrays);
  const attention::Plan plan(attention, shape);
  const Cut cut = attention::CutBackward(shape, sizeof(T));
  const std::size_t bytes = ScratchBytes<attention::ForwardScratch<T>>(attention, cut, shape);
  const int workers = core::Concurrency(executor);
  workspace.Reserve(WorkspaceBytes(core::Arena(), bytes, workers));
  const attention::WeightsProblem<T> problem{
      {attention, plan, cut, {}, arrays.q, arrays.k}, arrays.lse, arrays.heads, arrays.rows, arrays.weights};
  const int64_t tasks = shape.batch * arrays.heads.extent[0] * attention::DivideUp(arrays.rows.extent[0], cut.panel);
  RunTasks(executor, ScoreWork(shape), tasks, Scratch{workspace.data(), bytes, workers},
           [&](int64_t task, int64_t, std::byte* own) { dispatch::RunWeights(problem, task, own); });
}

// Memory that all workers of a backward call share.
template <class T>
struct BackwardShared {
  dispatch::BiasCollection<T> biases;
  bool split;  // chunks of one head may run at the same time
  T *d_q_wide = nullptr, *d_q_parts = nullptr;

  // wants_queries: whether dQ is wanted; narrow: whether its elements are narrower than T.
  BackwardShared(core::Arena& arena, const Attention& attention, const Cut& cut, const Shape& shape,
                 const BiasGradients<T>& wanted, bool wants_queries, bool narrow, int concurrency)
      : biases(arena, attention, cut, shape, wanted) {
    // With fewer blocks than workers need, the chunks of a head run apart and their dQ is kept apart too. The order of the
    // sums is the same either way.
    split = cut.chunks > 1 && concurrency > 1 && biases.blocks().count() < 2 * static_cast<int64_t>(concurrency);
    const int64_t queries =
        attention.packed.present() ? attention.packed.query_offsets(shape.batch) : shape.batch * shape.q_len;
    const int64_t size = shape.q_heads * queries * shape.head_dim;
    if (!wants_queries) return;
    if (narrow) d_q_wide = arena.Take<T>(size);
    if (split) d_q_parts = arena.Take<T>(cut.chunks - 1, size);
  }
};

// Adds the parts of the chunks after the first to dQ, in their order, and rounds it where the caller's elements are narrower.
template <class T>
void FinishQueries(const attention::BackwardProblem<T>& problem, int64_t b, int64_t h) {
  const attention::Plan& plan = problem.plan;
  const Cut& cut = problem.cut;
  const int64_t head_dim = plan.shape().head_dim, queries = plan.QueryCount(b);
  const core::Output& d_q = problem.d_q;
  const int64_t start = plan.ArrayRow(b) * d_q.stride[0] + h * d_q.stride[1] + plan.FirstQuery(b) * d_q.stride[2];
  const auto store = [&](int64_t i, int64_t c, T value) {
    const int64_t at = start + i * d_q.stride[2] + c * d_q.stride[3];
    if (d_q.element == core::Element::kBFloat16) {
      reinterpret_cast<BFloat16*>(d_q.data)[at] = ToBFloat16(static_cast<float>(value));
    } else if (d_q.element == core::Element::kFloat16) {
      reinterpret_cast<Float16*>(d_q.data)[at] = ToFloat16(static_cast<float>(value));
    } else {
      reinterpret_cast<T*>(d_q.data)[at] += value;
    }
  };
  for (int64_t begin = 0; begin < queries; begin += cut.panel) {
    const int64_t end = std::min(begin + cut.panel, queries);
    const attention::KeyRange reach = plan.Reach(b, h, begin, end - begin);
    for (int64_t chunk = 1; problem.d_q_parts && chunk < cut.chunks; ++chunk) {
      if (attention::PieceOf(reach, chunk, cut.chunk, cut.tile).empty()) continue;
      const T* part = problem.QueryPart(b, h, chunk);
      for (int64_t i = begin; i < end; ++i)
        for (int64_t c = 0; c < head_dim; ++c) {
          if (problem.d_q_wide) {
            problem.WideQueries(b, h)[i * head_dim + c] += part[i * head_dim + c];
          } else {
            store(i, c, part[i * head_dim + c]);
          }
        }
    }
    if (!problem.d_q_wide) continue;
    for (int64_t i = begin; i < end; ++i)
      for (int64_t c = 0; c < head_dim; ++c) store(i, c, problem.WideQueries(b, h)[i * head_dim + c]);
  }
}

// What the tasks of a backward call are: all chunks of a block, or one of them where chunks may run at the same time.
struct BackwardTasks {
  const dispatch::Blocks& blocks;
  const Shape& shape;
  int64_t chunks;
  bool split;

  int64_t count() const { return blocks.count() * (split ? chunks : 1); }
  int64_t block(int64_t task) const { return split ? task % blocks.count() : task; }
  // Under causality the first chunks are the longest.
  int64_t first_chunk(int64_t task) const { return split ? task / blocks.count() : 0; }

  dispatch::ChunkTask Chunk(int64_t block, int64_t x, int64_t chunk) const {
    const dispatch::BlockRow row = dispatch::RowOfBlock(blocks, shape, block, x);
    return {row.b, row.kv_head, chunk, block % blocks.copies};
  }

  // Calls visit(chunk, the one after it or null) for the chunks of a task in their order; the last is followed by the first of
  // task `next`, unless that is -1.
  template <class Visit>
  void ForEachPair(int64_t task, int64_t next, const Visit& visit) const {
    std::optional<dispatch::ChunkTask> held;
    const auto pass = [&](const dispatch::ChunkTask& chunk) {
      if (held) visit(*held, &chunk);
      held = chunk;
    };
    const int64_t last_chunk = split ? first_chunk(task) + 1 : chunks;
    for (int64_t chunk = first_chunk(task); chunk < last_chunk; ++chunk)
      for (int64_t x = blocks.first_row(block(task)); x < blocks.last_row(block(task)); ++x) pass(Chunk(block(task), x, chunk));
    if (!held) return;
    if (next < 0) {
      visit(*held, nullptr);
    } else {
      pass(Chunk(block(next), blocks.first_row(block(next)), first_chunk(next)));
    }
  }
};

template <class T>
void RunBackward(const Attention& attention, const core::BackwardArrays<T>& arrays, Workspace& workspace, Executor& executor) {
  const Shape shape = core::CheckBackward(attention, arrays);
  const attention::Plan plan(attention, shape);
  const Cut cut = attention::CutBackward(shape, sizeof(T));
  const int workers = core::Concurrency(executor);
  const bool wants_queries = arrays.d_q.present(), wants_keys = arrays.d_k.present(), wants_values = arrays.d_v.present();
  const std::size_t bytes = ScratchBytes<attention::BackwardScratch<T>>(attention, cut, shape, wants_keys, wants_values);
  const bool narrow = arrays.q.element != core::ElementOf<T>();

  core::Arena counter;
  BackwardShared<T>(counter, attention, cut, shape, arrays.d_biases, wants_queries, narrow, workers);
  workspace.Reserve(WorkspaceBytes(counter, bytes, workers));
  core::Arena arena(workspace.data());
  const BackwardShared<T> shared(arena, attention, cut, shape, arrays.d_biases, wants_queries, narrow, workers);
  const Scratch scratch{workspace.data() + arena.used(), bytes, workers};
  shared.biases.Clear();

  const attention::BackwardProblem<T> problem{
      {attention, plan, cut, attention::RealisedDropout(attention.dropout), arrays.q, arrays.k},
      arrays.v,
      arrays.out,
      arrays.lse,
      arrays.d_out,
      arrays.d_lse,
      arrays.remainder,
      arrays.correction,
      arrays.d_q,
      arrays.d_k,
      arrays.d_v,
      wants_queries || wants_keys || shared.biases.any_of_scores(),
      shared.d_q_wide,
      shared.d_q_parts,
      shared.biases.parts()};
  const double work = 2.5 * ScoreWork(shape);
  const BackwardTasks tasks{shared.biases.blocks(), shape, cut.chunks, shared.split};
  RunTasks(executor, work, tasks.count(), scratch, [&](int64_t task, int64_t next, std::byte* own) {
    tasks.ForEachPair(task, next, [&](const dispatch::ChunkTask& chunk, const dispatch::ChunkTask* after) {
      dispatch::RunBackward(problem, chunk, after, own);
    });
  });
  if (wants_queries && (shared.split || narrow))
    RunTasks(executor, work, shape.batch * shape.q_heads, scratch,
             [&](int64_t row, int64_t, std::byte*) { FinishQueries(problem, row / shape.q_heads, row % shape.q_heads); });
  shared.biases.Finish();
}

// All gradients that a call may ask for, by presence alone.
template <class T>
BiasGradients<T> AllGradients(const Attention& attention) {
  static T somewhere{};
  BiasGradients<T> all;
  const auto present = [&](auto& gradient, const auto* table) {
    if (!table) return;
    std::visit([&](const auto& t) { gradient.extent = t.extent; }, *table);
    gradient.data = &somewhere;
  };
  const auto table = [](const auto& side) { return side ? &*side : nullptr; };
  present(all.bias, attention.bias ? &attention.bias->values : nullptr);
  present(all.relative_bias, attention.relative_bias ? &attention.relative_bias->table : nullptr);
  present(all.slopes, attention.slope_bias ? &attention.slope_bias->slopes : nullptr);
  present(all.content_keys, attention.content_bias ? table(attention.content_bias->keys) : nullptr);
  present(all.content_values, attention.content_bias ? table(attention.content_bias->values) : nullptr);
  present(all.content_queries, attention.content_bias ? table(attention.content_bias->queries) : nullptr);
  return all;
}

template <class T>
std::size_t ForwardBytes(const Attention& attention, const Shape& shape, int workers) {
  const Cut cut = attention::CutForward(attention, shape, sizeof(T));
  core::Arena counter;
  TakeSplitParts<T>(counter, attention, cut, shape);
  return WorkspaceBytes(counter, ScratchBytes<attention::ForwardScratch<T>>(attention, cut, shape), workers);
}

template <class T>
std::size_t BackwardBytes(const Attention& attention, const Shape& shape, bool narrow, int workers) {
  const Cut cut = attention::CutBackward(shape, sizeof(T));
  core::Arena counter;
  BackwardShared<T>(counter, attention, cut, shape, AllGradients<T>(attention), true, narrow, workers);
  return WorkspaceBytes(counter, ScratchBytes<attention::BackwardScratch<T>>(attention, cut, shape, true, true), workers);
}

void CheckQuery(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  core::CheckDescribed(attention, shape);
  if (element_bytes != 2 && element_bytes != 4 && element_bytes != 8)
    core::Refuse("element_bytes", "expected 2, 4 or 8, got " + std::to_string(element_bytes));
  if (concurrency < 1) core::Refuse("concurrency", "expected at least 1, got " + std::to_string(concurrency));
}

}  // namespace

template <class T>
void Forward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, View<T, 4> out, View<Accum<T>, 3> lse, Workspace& workspace,
             Executor& executor, const Statistics<Accum<T>>& statistics, View<BFloat16, 4> remainder,
             View<Accum<T>, 3> correction) {
  using core::OperandOf;
  RunForward<Accum<T>>(
      attention, {OperandOf(q), OperandOf(k), OperandOf(v), OperandOf(out), lse, statistics, OperandOf(remainder), correction},
      workspace, executor);
}

template <class T>
void Forward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
             View<const std::type_identity_t<T>, 4> v, View<T, 4> out, View<Accum<T>, 3> lse) {
  Forward<T>(attention, q, k, v, out, lse, ThreadWorkspace(), ThreadPool::Default());
}

template <class T>
void Backward(const Attention& attention, View<const std::type_identity_t<T>, 4> q, View<const std::type_identity_t<T>, 4> k,
              View<const std::type_identity_t<T>, 4> v, View<const std::type_identity_t<T>, 4> out, View<const Accum<T>, 3> lse,
              View<const std::type_identity_t<T>, 4> d_out, View<T, 4> d_q, View<T, 4> d_k, View<T, 4> d_v,
              const BiasGradients<Accum<T>>& d_biases, Workspace& workspace, Executor& executor, View<const Accum<T>, 3> d_lse,
              View<const BFloat16, 4> remainder, View<const Accum<T>, 3> correction) {
  using core::OperandOf;
  RunBackward<Accum<T>>(attention,
                        {OperandOf(q), OperandOf(k), OperandOf(v), OperandOf(out), lse, OperandOf(d_out), d_lse,
                         OperandOf(remainder), correction, OperandOf(d_q), OperandOf(d_k), OperandOf(d_v), d_biases},
                        workspace, executor);
}

template <class T>
void Weights(const Attention& attention, View<const T, 4> q, View<const T, 4> k, View<const Accum<T>, 3> lse,
             View<const int64_t, 1> heads, View<const int64_t, 1> rows, View<Accum<T>, 4> weights, Workspace& workspace,
             Executor& executor) {
  RunWeights<Accum<T>>(attention, {core::OperandOf(q), core::OperandOf(k), lse, heads, rows, weights}, workspace, executor);
}

std::size_t ForwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  CheckQuery(attention, shape, element_bytes, concurrency);
  return element_bytes == 8 ? ForwardBytes<double>(attention, shape, concurrency)
                            : ForwardBytes<float>(attention, shape, concurrency);
}

std::size_t BackwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  CheckQuery(attention, shape, element_bytes, concurrency);
  return element_bytes == 8 ? BackwardBytes<double>(attention, shape, false, concurrency)
                            : BackwardBytes<float>(attention, shape, element_bytes == 2, concurrency);
}

// The four element types of the public functions.
// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses
#define HEED_INSTANTIATE(T)                                                                                                    \
  template void Forward(const Attention&, View<const T, 4>, View<const T, 4>, View<const T, 4>, View<T, 4>, View<Accum<T>, 3>, \
                        Workspace&, Executor&, const Statistics<Accum<T>>&, View<BFloat16, 4>, View<Accum<T>, 3>);             \
  template void Forward(const Attention&, View<const T, 4>, View<const T, 4>, View<const T, 4>, View<T, 4>,                    \
                        View<Accum<T>, 3>);                                                                                    \
  template void Backward(const Attention&, View<const T, 4>, View<const T, 4>, View<const T, 4>, View<const T, 4>,             \
                         View<const Accum<T>, 3>, View<const T, 4>, View<T, 4>, View<T, 4>, View<T, 4>,                        \
                         const BiasGradients<Accum<T>>&, Workspace&, Executor&, View<const Accum<T>, 3>,                       \
                         View<const BFloat16, 4>, View<const Accum<T>, 3>);                                                    \
  template void Weights(const Attention&, View<const T, 4>, View<const T, 4>, View<const Accum<T>, 3>, View<const int64_t, 1>, \
                        View<const int64_t, 1>, View<Accum<T>, 4>, Workspace&, Executor&)
HEED_INSTANTIATE(float);
HEED_INSTANTIATE(double);
HEED_INSTANTIATE(BFloat16);
HEED_INSTANTIATE(Float16);
#undef HEED_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace heed
