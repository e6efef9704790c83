// The way of a call: check, plan, dispatch. No SIMD here.
#include <atomic>
#include <cmath>

#include "attention/problem.h"
#include "core/arena.h"
#include "core/validation.h"
#include "dispatch/kernels.h"
#include "heed/attention.h"
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
  return static_cast<double>(shape.batch * shape.q_heads) * static_cast<double>(shape.q_len) *
         static_cast<double>(shape.kv_len) * static_cast<double>(shape.head_dim + shape.value_dim);
}

// Runs tasks in any order, each worker with its own scratch. Workers take the next task when they are free: uneven tasks
// (causal panels) then balance, and since no task depends on another the results do not show who ran it.
template <class Task>
void RunTasks(Executor& executor, double work, int64_t tasks, std::byte* scratch, std::size_t scratch_bytes, const Task& task) {
  const int64_t workers = work < simd::kSerialWork ? 1 : std::min<int64_t>(executor.concurrency(), tasks);
  if (workers <= 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i, scratch);
    return;
  }
  std::atomic<int64_t> next{0};
  executor.ParallelFor(workers, [&](int64_t worker) {
    std::byte* own = scratch + static_cast<std::size_t>(worker) * scratch_bytes;
    for (int64_t i = next.fetch_add(1); i < tasks; i = next.fetch_add(1)) task(i, own);
  });
}

template <class T>
std::size_t ForwardScratchBytes(const Cut& cut, const Shape& shape) {
  core::Arena arena;
  attention::ForwardScratch<T> scratch(arena, cut, shape);
  return arena.used();
}

template <class T>
std::size_t BackwardScratchBytes(const Cut& cut, const Shape& shape) {
  core::Arena arena;
  attention::BackwardScratch<T> scratch(arena, cut, shape);
  return arena.used();
}

// Memory that all workers of a backward call share.
template <class T>
struct BackwardShared {
  bool split;  // chunks of one head may run at the same time
  T* d_q_parts = nullptr;
  T* d_bias_parts = nullptr;

  BackwardShared(core::Arena& arena, const Attention& attention, const Cut& cut, const Shape& shape, int concurrency) {
    // With fewer key heads than workers need, the chunks of a head run apart and their dQ is kept apart too. The order of the
    // sums is the same either way.
    split = cut.chunks > 1 && concurrency > 1 && shape.batch * shape.kv_heads < 2 * static_cast<int64_t>(concurrency);
    const int64_t heads = shape.batch * shape.q_heads;
    if (split) d_q_parts = arena.Take<T>(heads * (cut.chunks - 1) * shape.q_len * shape.head_dim);
    if (attention.relative_bias)
      d_bias_parts = arena.Take<T>(heads * cut.chunks * (2 * core::MaxDistance(*attention.relative_bias) + 1));
  }
};

template <class T>
void ForwardImpl(const Attention& attention, const View<const T, 4>& q, const View<const T, 4>& k, const View<const T, 4>& v,
                 const View<T, 4>& out, const View<T, 3>& lse, Workspace& workspace, Executor& executor) {
  const Shape shape = core::CheckForward(attention, q, k, v, out, lse);
  const attention::Plan plan(attention, shape);
  const Cut cut = attention::CutWork(shape, sizeof(T));
  const std::size_t bytes = ForwardScratchBytes<T>(cut, shape);
  workspace.Reserve(bytes * static_cast<std::size_t>(executor.concurrency()));
  const attention::ForwardProblem<T> problem{attention, plan, cut, attention::RealisedDropout(attention.dropout), q, k,
                                             v,         out,  lse};
  const int64_t tasks = shape.batch * shape.q_heads * cut.panels;
  // Last panels first: under causality they are the longest.
  RunTasks(executor, ScoreWork(shape), tasks, workspace.data(), bytes,
           [&](int64_t task, std::byte* scratch) { dispatch::RunForward(problem, tasks - 1 - task, scratch); });
}

// d_q += the parts of the chunks after the first, in their order.
template <class T>
void AddQueryParts(const attention::BackwardProblem<T>& problem, int64_t b, int64_t h) {
  const Shape& shape = problem.plan.shape();
  const Cut& cut = problem.cut;
  for (int64_t index = 0; index < cut.panels; ++index) {
    const int64_t begin = index * cut.panel, count = std::min(cut.panel, shape.q_len - begin);
    const attention::KeyRange reach = problem.plan.Reach(b, begin, count);
    for (int64_t chunk = 1; chunk < cut.chunks; ++chunk) {
      if (attention::ChunkReach(cut, reach, chunk).empty()) continue;
      const T* part = problem.QueryPart(b, h, chunk);
      for (int64_t i = begin; i < begin + count; ++i)
        for (int64_t c = 0; c < shape.head_dim; ++c) problem.d_q(b, h, i, c) += part[i * shape.head_dim + c];
    }
  }
}

// Chunks of one head first, then batch rows: the same sums whether chunks ran apart or not.
template <class T>
void AddBiasParts(const attention::BackwardProblem<T>& problem, const View<T, 2>& d_bias) {
  const Shape& shape = problem.plan.shape();
  for (int64_t h = 0; h < shape.q_heads; ++h)
    for (int64_t x = 0; x < problem.bias_columns; ++x) {
      T total = 0;
      for (int64_t b = 0; b < shape.batch; ++b) {
        T row = 0;
        for (int64_t chunk = 0; chunk < problem.cut.chunks; ++chunk) row += problem.BiasPart(b, h, chunk)[x];
        total += row;
      }
      d_bias(h, x) = total;
    }
}

template <class T>
void BackwardImpl(const Attention& attention, const core::BackwardViews<T>& views, Workspace& workspace, Executor& executor) {
  const Shape shape = core::CheckBackward(attention, views);
  const attention::Plan plan(attention, shape);
  const Cut cut = attention::CutWork(shape, sizeof(T));
  const int concurrency = executor.concurrency();
  const std::size_t bytes = BackwardScratchBytes<T>(cut, shape);

  core::Arena counter;
  BackwardShared<T>(counter, attention, cut, shape, concurrency);
  workspace.Reserve(counter.used() + bytes * static_cast<std::size_t>(concurrency));
  core::Arena arena(workspace.data());
  const BackwardShared<T> shared(arena, attention, cut, shape, concurrency);
  std::byte* scratch = workspace.data() + arena.used();

  attention::BackwardProblem<T> problem{attention, plan,        cut,       attention::RealisedDropout(attention.dropout),
                                        views.q,   views.k,     views.v,   views.out,
                                        views.lse, views.d_out, views.d_q, views.d_k,
                                        views.d_v, nullptr,     0,         shared.d_q_parts};
  if (views.d_relative_bias.present()) {
    problem.d_bias_parts = shared.d_bias_parts;
    problem.bias_columns = 2 * core::MaxDistance(*attention.relative_bias) + 1;
    std::fill_n(shared.d_bias_parts, shape.batch * shape.q_heads * cut.chunks * problem.bias_columns, T{0});
  }

  const double work = 2.5 * ScoreWork(shape);
  const int64_t kv_rows = shape.batch * shape.kv_heads;
  if (shared.split) {
    // Under causality the first chunks are the longest.
    RunTasks(executor, work, kv_rows * cut.chunks, scratch, bytes, [&](int64_t task, std::byte* own) {
      const int64_t row = task % kv_rows;
      dispatch::RunBackward(problem, row / shape.kv_heads, row % shape.kv_heads, task / kv_rows, own);
    });
    RunTasks(executor, work, shape.batch * shape.q_heads, scratch, bytes,
             [&](int64_t row, std::byte*) { AddQueryParts(problem, row / shape.q_heads, row % shape.q_heads); });
  } else {
    RunTasks(executor, work, kv_rows, scratch, bytes, [&](int64_t row, std::byte* own) {
      for (int64_t chunk = 0; chunk < cut.chunks; ++chunk)
        dispatch::RunBackward(problem, row / shape.kv_heads, row % shape.kv_heads, chunk, own);
    });
  }
  if (views.d_relative_bias.present()) AddBiasParts(problem, views.d_relative_bias);
}

Workspace& ThreadWorkspace() {
  thread_local Workspace workspace;
  return workspace;
}

template <class T>
std::size_t BackwardBytes(const Attention& attention, const Cut& cut, const Shape& shape, int concurrency) {
  core::Arena counter;
  BackwardShared<T>(counter, attention, cut, shape, concurrency);
  return counter.used() + BackwardScratchBytes<T>(cut, shape) * static_cast<std::size_t>(concurrency);
}

}  // namespace

void Forward(const Attention& attention, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
             View<float, 4> out, View<float, 3> lse, Workspace& workspace, Executor& executor) {
  ForwardImpl<float>(attention, q, k, v, out, lse, workspace, executor);
}

void Forward(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
             View<double, 4> out, View<double, 3> lse, Workspace& workspace, Executor& executor) {
  ForwardImpl<double>(attention, q, k, v, out, lse, workspace, executor);
}

void Forward(const Attention& attention, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
             View<float, 4> out, View<float, 3> lse) {
  Forward(attention, q, k, v, out, lse, ThreadWorkspace(), ThreadPool::Default());
}

void Forward(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
             View<double, 4> out, View<double, 3> lse) {
  Forward(attention, q, k, v, out, lse, ThreadWorkspace(), ThreadPool::Default());
}

void Backward(const Attention& attention, View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
              View<const float, 4> out, View<const float, 3> lse, View<const float, 4> d_out, View<float, 4> d_q,
              View<float, 4> d_k, View<float, 4> d_v, View<float, 2> d_relative_bias, Workspace& workspace,
              Executor& executor) {
  BackwardImpl<float>(attention, {q, k, v, out, lse, d_out, d_q, d_k, d_v, d_relative_bias}, workspace, executor);
}

void Backward(const Attention& attention, View<const double, 4> q, View<const double, 4> k, View<const double, 4> v,
              View<const double, 4> out, View<const double, 3> lse, View<const double, 4> d_out, View<double, 4> d_q,
              View<double, 4> d_k, View<double, 4> d_v, View<double, 2> d_relative_bias, Workspace& workspace,
              Executor& executor) {
  BackwardImpl<double>(attention, {q, k, v, out, lse, d_out, d_q, d_k, d_v, d_relative_bias}, workspace, executor);
}

std::size_t ForwardWorkspace(const Attention& /*attention*/, const Shape& shape, int element_bytes, int concurrency) {
  const Cut cut = attention::CutWork(shape, element_bytes);
  const std::size_t bytes =
      element_bytes == 4 ? ForwardScratchBytes<float>(cut, shape) : ForwardScratchBytes<double>(cut, shape);
  return bytes * static_cast<std::size_t>(concurrency);
}

std::size_t BackwardWorkspace(const Attention& attention, const Shape& shape, int element_bytes, int concurrency) {
  const Cut cut = attention::CutWork(shape, element_bytes);
  return element_bytes == 4 ? BackwardBytes<float>(attention, cut, shape, concurrency)
                            : BackwardBytes<double>(attention, cut, shape, concurrency);
}

}  // namespace heed
