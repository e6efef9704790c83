// LibTorch's threads and errors, for callers that do not include it.
#ifndef HEED_LAB_TRAINING_COMPUTE_H_
#define HEED_LAB_TRAINING_COMPUTE_H_

#include <exception>
#include <optional>
#include <string>

namespace heed::lab {

void ComputeWith(int threads);
int ComputeThreads();

// Another number of threads for as long as it lives; threads that start meanwhile inherit it.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) { ComputeWith(threads); }
  ~ThreadCount() { ComputeWith(outer_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int outer_ = ComputeThreads();
};

struct ComputeError {
  bool out_of_memory;
  std::string text;  // without the backtrace
};
// Where LibTorch threw the error.
std::optional<ComputeError> AsComputeError(const std::exception& error);

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_COMPUTE_H_
