#include "executor.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <torch/csrc/stable/c/shim.h>

#include "heed/error.h"

namespace heed::nn {

TorchExecutor::TorchExecutor() : concurrency_(at::in_parallel_region() ? 1 : std::max(1, at::get_num_threads())) {}

// The engine deals out its tasks itself: it runs no more of them than there are threads, and they do not throw.
void TorchExecutor::ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) {
  const auto run = [](int64_t first, int64_t last, void* each) {
    for (int64_t i = first; i < last; ++i) (*static_cast<FunctionRef<void(int64_t)>*>(each))(i);
  };
  // Out of line on purpose: the template at::parallel_for runs on one thread in a file compiled without OpenMP.
  if (torch_parallel_for(0, tasks, 1, run, &task) != AOTI_TORCH_SUCCESS) throw Error("PyTorch could not run its threads");
}

}  // namespace heed::nn
