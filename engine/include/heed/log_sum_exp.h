// Scores and log-sum-exps in powers of two, as in the kernels.
#ifndef HEED_LOG_SUM_EXP_H_
#define HEED_LOG_SUM_EXP_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace heed {

// nats * log2(e), rounded to T. Finite numbers stay finite, since masks use the lowest finite number.
template <class T>
T InPowersOfTwo(double nats) {
  constexpr double kHighest = std::numeric_limits<T>::max();
  const double bits = nats * std::numbers::log2e;
  return static_cast<T>(std::isfinite(nats) ? std::clamp(bits, -kHighest, kHighest) : bits);
}

// -lse * log2(e): both passes add it to scores in powers of two to divide weights by exp(lse). It is rounded once more than
// lse; Forward's correction belongs to weights divided in this way. -inf for a row without weights.
template <class T>
T MinusInPowersOfTwo(T lse) {
  return lse == -std::numeric_limits<T>::infinity() ? lse : static_cast<T>(static_cast<double>(lse) * -std::numbers::log2e);
}

}  // namespace heed

#endif  // HEED_LOG_SUM_EXP_H_
