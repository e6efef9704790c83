// Mixers of steps in linear time, their calls and their steps of decoding, for every SIMD target.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include "core/task_loop.h"
#include "dispatch/workers.h"
#include "heed/gated_delta.h"
#include "heed/linear_attention.h"
#include "mixers/call.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mixers/mixers.cc"
#include "heed/portable_math.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "mixers/gated_delta/work-inl.h"
#include "mixers/linear_attention/work-inl.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Works on a part of a call as one worker.
template <class T>
void WorkOf(const mixers::Call<T>& call, mixers::Part part, core::TaskQueue& tasks, std::byte* memory) {
  using enum mixers::Part;
  core::Arena arena(memory);
  const mixers::Scratch<T> scratch(arena, call);
  // Calls run(sequence, head, chunk) for its tasks; the chunk is 0 where they have none.
  const auto for_each_task = [&](const auto& run) {
    tasks.Work([&](int64_t task, int64_t) {
      const int64_t place = task / call.heads, head = task % call.heads;
      const bool chunks = part == kSum || part == kFinish;
      const int64_t b = chunks ? call.sequences.SequenceOf(place) : place;
      run(b, head, chunks ? place - call.sequences.ChunksBefore(b) : 0);
    });
  };
  if (call.delta) {
    DeltaWork<T> work(call, scratch);
    return for_each_task([&](int64_t b, int64_t h, int64_t) { work.Whole(b, h); });
  }
  LinearWork<T> work(call, scratch);
  for_each_task([&](int64_t b, int64_t h, int64_t chunk) {
    if (part == kWhole) work.Whole(b, h);
    if (part == kSum) work.Sum(b, h, chunk);
    if (part == kCarry) work.Carry(b, h);
    if (part == kFinish) work.Finish(b, h, chunk);
  });
}

// As many columns of the state and of the output as d has lanes, from `column` on.
template <class D, class T>
void StepColumns(D d, const mixers::StepCall<T>& call, int64_t b, int64_t h, int64_t column, T* row) {
  const LinearStep<T>& step = call.step;
  const int64_t dim = step.q.extent[2], values = step.v.extent[2], lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto decay = hn::Set(d, step.decay.present() ? static_cast<T>(portable::Exp(double{step.decay(b, h)})) : T{1});
  const auto at = [&](int64_t i) { return &call.state(b, h, i, 0) + column; };

  // The column that normalises adds keys alone.
  for (int64_t c = 0; c < lanes; ++c) row[c] = column + c < values ? step.v(b, h, column + c) : T{1};
  auto added = hn::Load(d, row);
  if (step.beta.present()) {
    auto held = hn::Zero(d);
    for (int64_t i = 0; i < dim; ++i) held = hn::MulAdd(hn::Set(d, step.k(b, h, i)), hn::LoadU(d, at(i)), held);
    added = hn::Mul(hn::Set(d, step.beta(b, h)), hn::NegMulAdd(decay, held, added));
  }
  auto out = hn::Zero(d);
  for (int64_t i = 0; i < dim; ++i) {
    const auto now = hn::MulAdd(hn::Set(d, step.k(b, h, i)), added, hn::Mul(decay, hn::LoadU(d, at(i))));
    hn::StoreU(now, d, at(i));
    out = hn::MulAdd(hn::Set(d, step.q(b, h, i)), now, out);
  }
  hn::Store(out, d, row);
  for (int64_t c = 0; c < lanes && column + c < values; ++c) call.out(b, h, column + c) = row[c];
}

template <class T>
void StepOf(const mixers::StepCall<T>& call, int64_t b, int64_t h) {
  const hn::CappedTag<T, mixers::kQuantum> d;
  const hn::CappedTag<T, 1> one;
  alignas(64) T row[mixers::kQuantum] = {};
  const int64_t columns = call.state.extent[3], values = call.step.v.extent[2], lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t column = 0;
  for (; column + lanes <= values; column += lanes) StepColumns(d, call, b, h, column, row);
  for (; column < columns; ++column) StepColumns(one, call, b, h, column, row);
  // The last of them was the sum of weights.
  for (int64_t c = 0; c < values && columns > values; ++c) call.out(b, h, c) = row[0] == 0 ? T{0} : call.out(b, h, c) / row[0];
}

mixers::Kernels<float> MixersF32() { return {&WorkOf<float>, &StepOf<float>}; }
mixers::Kernels<double> MixersF64() { return {&WorkOf<double>, &StepOf<double>}; }

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed {
HWY_EXPORT(MixersF32);
HWY_EXPORT(MixersF64);

namespace mixers {
namespace {

template <class T>
Kernels<T> KernelsInUse() {
  if constexpr (std::is_same_v<T, float>) {
    return HWY_DYNAMIC_DISPATCH(MixersF32)();
  } else {
    return HWY_DYNAMIC_DISPATCH(MixersF64)();
  }
}

template <class T>
void LayShared(core::Arena& arena, Call<T>& call) {
  const int64_t slots = call.sequences.all_chunks();
  if (call.apart) call.states = arena.Take<T>(slots, call.heads, call.sizes.slot());
  if (call.apart && call.backward) call.d_states = arena.Take<T>(slots, call.heads, call.sizes.slot());
  if (call.wants_decay() && call.one_decay()) call.decay_parts = arena.Take<double>(slots, call.heads);
}

// In the order of sequences and chunks.
template <class T>
void SumDecayParts(const Call<T>& call) {
  const int64_t chunks = call.sequences.all_chunks();
  for (int64_t h = 0; h < call.heads && call.decay_parts; ++h) {
    double sum = 0;
    for (int64_t c = 0; c < chunks; ++c) sum += call.decay_parts[h * chunks + c];
    call.gradients.d_decay(0, h, 0) = static_cast<T>(sum);
  }
}

template <class T>
void RunCall(Call<T> call, Workspace& workspace, Executor& executor) {
  const int workers = core::Concurrency(executor);
  const int64_t chunks = core::CheckedProduct(call.sequences.all_chunks(), call.heads, "q");
  const Sizes& sizes = call.sizes;
  const double products = static_cast<double>((sizes.dim + kChunk) * (sizes.columns + kChunk)) * static_cast<double>(kChunk);
  const double work = (call.backward ? 2.5 : 1) * static_cast<double>(chunks) * products;
  call.apart = !call.delta && workers > 1 && work >= simd::kSerialWork && call.sequences.longest() > 1 &&
               call.rows() < 2 * int64_t{workers};
  core::Arena shared, own;
  LayShared(shared, call);
  Scratch<T>(own, call);
  const auto areas = static_cast<int>(std::clamp<int64_t>(call.apart ? chunks : call.rows(), 1, workers));
  dispatch::CallMemory memory(shared, own, areas);
  memory.Reserve(workspace);
  core::Arena filled(memory.shared());
  LayShared(filled, call);

  const auto work_of_part = KernelsInUse<T>().work;
  const auto run = [&](Part part, int64_t tasks) {
    memory.Run(executor, work, tasks, [&](core::TaskQueue& queue, std::byte* area) { work_of_part(call, part, queue, area); });
  };
  if (call.apart) {
    run(Part::kSum, chunks);
    run(Part::kCarry, call.rows());
    run(Part::kFinish, chunks);
  } else {
    run(Part::kWhole, call.rows());
  }
  SumDecayParts(call);
}

// Heads whose states are some 64 Ki elements make a task: below, waking a thread takes longer than it saves.
template <class T>
void RunStep(const StepCall<T>& call, Executor& executor) {
  const auto& [batch, heads, dim, columns] = call.state.extent;
  const int64_t together = std::max<int64_t>(1, (int64_t{1} << 16) / std::max<int64_t>(1, dim * columns));
  const int64_t all = batch * heads;
  const auto step = KernelsInUse<T>().step;
  core::RunTasks(executor, (all + together - 1) / together, [&, heads = heads](int64_t task) {
    for (int64_t at = task * together; at < std::min(all, (task + 1) * together); ++at) step(call, at / heads, at % heads);
  });
}

}  // namespace
}  // namespace mixers

template <class T>
void LinearAttentionForward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearOutputs<T>& outputs,
                            Workspace& workspace, Executor& executor) {
  mixers::RunCall(mixers::CheckedForward(options, inputs, outputs, false), workspace, executor);
}
template <class T>
void LinearAttentionBackward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearCotangents<T>& cotangents,
                             const LinearGradients<T>& gradients, Workspace& workspace, Executor& executor) {
  mixers::RunCall(mixers::CheckedBackward(options, inputs, cotangents, gradients, false), workspace, executor);
}
template <class T>
void LinearAttentionStep(const LinearStep<T>& step, View<T, 4> state, View<T, 3> out, Executor& executor, bool normalise) {
  mixers::CheckStep(step, state, out, false, normalise);
  mixers::RunStep(mixers::StepCall<T>{step, state, out}, executor);
}

template <class T>
void GatedDeltaForward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearOutputs<T>& outputs,
                       Workspace& workspace, Executor& executor) {
  mixers::RunCall(mixers::CheckedForward(options, inputs, outputs, true), workspace, executor);
}
template <class T>
void GatedDeltaBackward(const LinearOptions& options, const LinearInputs<T>& inputs, const LinearCotangents<T>& cotangents,
                        const LinearGradients<T>& gradients, Workspace& workspace, Executor& executor) {
  mixers::RunCall(mixers::CheckedBackward(options, inputs, cotangents, gradients, true), workspace, executor);
}
template <class T>
void GatedDeltaStep(const LinearStep<T>& step, View<T, 4> state, View<T, 3> out, Executor& executor) {
  mixers::CheckStep(step, state, out, true, false);
  mixers::RunStep(mixers::StepCall<T>{step, state, out}, executor);
}

// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses
#define HEED_INSTANTIATE(T)                                                                                               \
  template void LinearAttentionForward(const LinearOptions&, const LinearInputs<T>&, const LinearOutputs<T>&, Workspace&, \
                                       Executor&);                                                                        \
  template void LinearAttentionBackward(const LinearOptions&, const LinearInputs<T>&, const LinearCotangents<T>&,         \
                                        const LinearGradients<T>&, Workspace&, Executor&);                                \
  template void LinearAttentionStep(const LinearStep<T>&, View<T, 4>, View<T, 3>, Executor&, bool);                       \
  template void GatedDeltaForward(const LinearOptions&, const LinearInputs<T>&, const LinearOutputs<T>&, Workspace&,      \
                                  Executor&);                                                                             \
  template void GatedDeltaBackward(const LinearOptions&, const LinearInputs<T>&, const LinearCotangents<T>&,              \
                                   const LinearGradients<T>&, Workspace&, Executor&);                                     \
  template void GatedDeltaStep(const LinearStep<T>&, View<T, 4>, View<T, 3>, Executor&)
HEED_INSTANTIATE(float);
HEED_INSTANTIATE(double);
#undef HEED_INSTANTIATE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace heed
#endif
