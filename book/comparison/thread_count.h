// Changes the number of threads of LibTorch for a while.
#ifndef HEED_BOOK_COMPARISON_THREAD_COUNT_H_
#define HEED_BOOK_COMPARISON_THREAD_COUNT_H_

namespace heed::lab {

int ThreadsInUse();

// Another number of threads for as long as it lives.
class ThreadCount {
 public:
  explicit ThreadCount(int threads);
  ~ThreadCount();
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int outer_;
};

}  // namespace heed::lab

#endif  // HEED_BOOK_COMPARISON_THREAD_COUNT_H_
