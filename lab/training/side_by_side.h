// LibTorch's threads and errors, and many small pieces of work, several at a time.
#ifndef HEED_LAB_TRAINING_SIDE_BY_SIDE_H_
#define HEED_LAB_TRAINING_SIDE_BY_SIDE_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "lab/report/progress.h"

namespace heed::lab {

// Calls work(i, done) for every i below `tasks`, `threads` of them at a time and in this order. LibTorch computes with one
// thread in each: for models this small that takes less time than several threads within an operation, and the results are the
// same bits for any number of threads. `work` adds what it has done to `done`, which the bar shows on top of done_before, and
// returns a note for the bar. An exception ends the work once what is under way is finished, and is thrown on.
void SideBySide(int64_t tasks, int threads, Progress& progress, int64_t done_before,
                const std::function<std::string(int64_t task, std::atomic<int64_t>& done)>& work);

// Seconds that this thread has computed: what other programs and other work take does not count.
double ThreadSeconds();

// Those of LibTorch.
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

#endif  // HEED_LAB_TRAINING_SIDE_BY_SIDE_H_
