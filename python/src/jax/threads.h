// What calls compute with: one pool of threads and some scratch memory, for all of XLA's threads.
#ifndef HEED_PYTHON_SRC_JAX_THREADS_H_
#define HEED_PYTHON_SRC_JAX_THREADS_H_

#include <memory>

#include "heed/executor.h"
#include "heed/workspace.h"

namespace heed::jax {

// The pool of this process, made on first use. Whoever holds it keeps it, also when another one takes its place.
std::shared_ptr<Executor> SharedThreads();
// Throws InvalidArgument for fewer than 1.
void SetThreads(int threads);

// Scratch memory for one call. XLA computes on threads of its own, so what a thread would keep nobody could ask it to release:
// workspaces are kept for the process, as many as there were calls at once.
std::shared_ptr<Workspace> LentWorkspace();
// Frees those that no call uses.
void ReleaseWorkspaces();

}  // namespace heed::jax

#endif  // HEED_PYTHON_SRC_JAX_THREADS_H_
