// Calls of attention drawn at random, for `heed bench --search`.
#ifndef HEED_BENCH_SUITES_RANDOM_CALL_H_
#define HEED_BENCH_SUITES_RANDOM_CALL_H_

#include <cstdint>

#include "bench/suites/call_case.h"
#include "lab/data/random.h"

namespace heed::lab {

struct DrawLimits {
  double bytes = 2048.0 * (1 << 20);  // see BytesOf
  double operations = 1.5e10;         // useful ones of a call whose queries see all keys
  int64_t longest = 65536;            // of queries and keys
  int threads = 1;                    // a call has 1 or so many
};

// At most so many bytes are needed to time a call: arrays, gradients and masks, what heed reserves, and what LibTorch needs on
// its way with the most memory, which stores every score several times.
double BytesOf(const CallCase& c);
double OperationsOf(const CallCase& c);

// From one token to the longest sequences, in equal shares a factor of two, most of them of the widths and options that models
// have, some of any. Throws InvalidArgument where hardly any call is within the limits.
CallCase DrawCall(Random& random, const DrawLimits& limits);

}  // namespace heed::lab

#endif  // HEED_BENCH_SUITES_RANDOM_CALL_H_
