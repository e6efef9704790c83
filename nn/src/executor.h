// The engine on PyTorch's threads.
#ifndef HEED_NN_SRC_EXECUTOR_H_
#define HEED_NN_SRC_EXECUTOR_H_

#include <cstdint>

#include "heed/executor.h"

namespace heed::nn {

// As many threads as at::get_num_threads() says; the calling thread alone inside one of PyTorch's parallel regions.
class TorchExecutor final : public Executor {
 public:
  TorchExecutor();
  void ParallelFor(int64_t tasks, FunctionRef<void(int64_t)> task) override;
  int concurrency() const override { return concurrency_; }

 private:
  int concurrency_;
};

}  // namespace heed::nn

#endif  // HEED_NN_SRC_EXECUTOR_H_
