// Timing side by side and the memory that one call needs.
#ifndef HEED_BENCH_SUITES_MEASUREMENT_H_
#define HEED_BENCH_SUITES_MEASUREMENT_H_

#include <cstddef>
#include <functional>
#include <vector>

namespace heed::lab {

double SecondsOf(const std::function<void()>& call);

struct Timing {
  double minimum = 0, median = 0;  // seconds
};

// Runs the candidates in turn, one call each a round, so that whatever else the machine does meets all of them alike. At
// least `rounds` rounds and `seconds` in all; one unmeasured round first. The first `short_ones` take turns among themselves
// for five milliseconds of every round: calls of microseconds would else find the caches as the longer ones after them leave
// them.
std::vector<Timing> TimeInTurn(const std::vector<std::function<void()>>& candidates, int rounds, double seconds,
                               std::size_t short_ones = 0);

// By how much the process grows at most during one call, in MiB; NaN where Linux does not tell. The call is made twice, each
// time on a new thread: code that is loaded and caches that are filled once do not count, scratch memory that a thread keeps
// does. Throws what the call throws.
double PeakGrowth(const std::function<void()>& call);

// The most memory of the process that was resident since, in MiB; NaN where Linux does not tell.
bool ForgetPeakResident();  // whether it is told
double PeakResident();

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_MEASUREMENT_H_
