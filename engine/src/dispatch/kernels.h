// The kernels behind run-time dispatch. Each call is one worker: it builds what it works with once and takes tasks from a queue
// until none is left. Implemented for every SIMD target in *_kernel.cc; the calling file chooses nothing else.
#ifndef HEED_DISPATCH_KERNELS_H_
#define HEED_DISPATCH_KERNELS_H_

#include <cstddef>

#include "attention/problem.h"
#include "core/task_loop.h"
#include "dispatch/tasks.h"
#include "position/scheme_set.h"

namespace heed::dispatch {

// A call as its workers see it.
template <class ProblemOfPass, class T>
struct CallOf {
  const ProblemOfPass& problem;
  const position::SchemeSet<T>& schemes;
  const attention::ScratchFacts& facts;  // that `scratch` was laid out by
};
template <class T>
using ForwardCall = CallOf<attention::ForwardProblem<T>, T>;
template <class T>
using WeightsCall = CallOf<attention::WeightsProblem<T>, T>;
template <class T>
using BackwardCall = CallOf<attention::BackwardProblem<T>, T>;

// Those of the target in use. scratch, of all: the bytes of a ForwardScratch, or BackwardScratch, and of what the schemes lay
// out behind it.
template <class T>
struct ForwardKernels {
  // Tasks are those of `plan`; then its panels, whose splits are merged.
  void (*forward)(const ForwardCall<T>& call, const ForwardTasks& plan, core::TaskQueue& tasks, std::byte* scratch);
  void (*merge)(const ForwardCall<T>& call, const ForwardTasks& plan, core::TaskQueue& tasks, std::byte* scratch);
  // Tasks are a panel's worth of the rows asked for, of one head: B * heads * panels of rows.
  void (*weights)(const WeightsCall<T>& call, core::TaskQueue& tasks, std::byte* scratch);
};
template <class T>
struct BackwardKernels {
  // Tasks are those of `plan`.
  void (*backward)(const BackwardCall<T>& call, const BackwardTasks& plan, core::TaskQueue& tasks, std::byte* scratch);
  // Sums the parts of dQ, dK and dV, and rounds dQ, where either is needed. Tasks are those of `plan`.
  void (*finish)(const BackwardCall<T>& call, const FinishTasks& plan, core::TaskQueue& tasks);
};

// T: float or double.
template <class T>
ForwardKernels<T> ForwardKernelsInUse();
template <class T>
BackwardKernels<T> BackwardKernelsInUse();

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_KERNELS_H_
