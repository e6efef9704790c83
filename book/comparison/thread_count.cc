#include "book/comparison/thread_count.h"

#include <ATen/Parallel.h>

namespace heed::lab {

int ThreadsInUse() { return at::get_num_threads(); }

ThreadCount::ThreadCount(int threads) : outer_(ThreadsInUse()) { at::set_num_threads(threads); }
ThreadCount::~ThreadCount() { at::set_num_threads(outer_); }

}  // namespace heed::lab
