// How the tasks of a mixer's call run: memory, workers, parts of sums.
#ifndef HEED_MIXERS_RUN_H_
#define HEED_MIXERS_RUN_H_

#include <algorithm>
#include <cstddef>

#include "core/task_loop.h"
#include "dispatch/workers.h"
#include "mixers/call.h"

namespace heed::mixers {

// Whole sequences; or their chunks by themselves, the states carried from one to the next, and chunks again.
enum class Part { kWhole, kSum, kCarry, kFinish };

// Calls run(sequence, head, chunk) for the tasks of a part; the chunk is 0 where they have none.
template <class T, class Run>
void ForEachTask(const Call<T>& call, Part part, core::TaskQueue& tasks, const Run& run) {
  tasks.Work([&](int64_t task, int64_t) {
    const int64_t place = task / call.heads, head = task % call.heads;
    const bool chunks = part == Part::kSum || part == Part::kFinish;
    const int64_t b = chunks ? call.sequences.SequenceOf(place) : place;
    run(b, head, chunks ? place - call.sequences.ChunksBefore(b) : 0);
  });
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

// kernel(call, part, tasks, memory) works on a part as one worker; cuts: whether it knows all parts, or whole sequences alone.
template <class T, class Kernel>
void RunCall(Call<T> call, bool cuts, const Kernel& kernel, Workspace& workspace, Executor& executor) {
  const int workers = core::Concurrency(executor);
  const int64_t chunks = core::CheckedProduct(call.sequences.all_chunks(), call.heads, "q");
  const Sizes& sizes = call.sizes;
  const double products = static_cast<double>((sizes.dim + kChunk) * (sizes.columns + kChunk)) * static_cast<double>(kChunk);
  const double work = (call.backward ? 2.5 : 1) * static_cast<double>(chunks) * products;
  call.apart =
      cuts && workers > 1 && work >= simd::kSerialWork && call.sequences.longest() > 1 && call.rows() < 2 * int64_t{workers};
  core::Arena shared, own;
  LayShared(shared, call);
  Scratch<T>(own, call);
  const auto areas = static_cast<int>(std::clamp<int64_t>(call.apart ? chunks : call.rows(), 1, workers));
  dispatch::CallMemory memory(shared, own, areas);
  memory.Reserve(workspace);
  core::Arena filled(memory.shared());
  LayShared(filled, call);

  const auto run = [&](Part part, int64_t tasks) {
    memory.Run(executor, work, tasks, [&](core::TaskQueue& queue, std::byte* area) { kernel(call, part, queue, area); });
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

// A step of decoding.
template <class T>
struct StepCall {
  LinearStep<T> step{};
  View<T, 4> state{};
  View<T, 3> out{};
};
// Of a call that was checked.
template <class T>
void RunStep(const StepCall<T>& call, Executor& executor);

}  // namespace heed::mixers

#endif  // HEED_MIXERS_RUN_H_
