// How long a call takes when nothing disturbs it.
#ifndef HEED_BENCH_FASTEST_H_
#define HEED_BENCH_FASTEST_H_

#include <algorithm>
#include <ctime>

namespace heed::bench {

// CPU seconds of the calling thread: other processes on the core do not count.
inline double ThreadSeconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Of three calls at least, fifty at most, as many as begin within 0.6 s; one before them warms up.
template <class Call>
double Fastest(const Call& call) {
  call();
  double best = 1e30;
  const double start = ThreadSeconds();
  for (int i = 0; i < 50 && (i < 3 || ThreadSeconds() - start < 0.6); ++i) {
    const double before = ThreadSeconds();
    call();
    best = std::min(best, ThreadSeconds() - before);
  }
  return best;
}

}  // namespace heed::bench

#endif  // HEED_BENCH_FASTEST_H_
