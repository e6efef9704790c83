// Scores and log-sum-exps as the kernels take them: in powers of two.
#ifndef HEED_LOG_SUM_EXP_H_
#define HEED_LOG_SUM_EXP_H_

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace heed {

// A number of nats in powers of two, rounded to T. What is finite stays finite: masks are made of the lowest number that there
// is.
template <class T>
T InPowersOfTwo(double nats) {
  constexpr double kHighest = std::numeric_limits<T>::max();
  const double bits = nats * std::numbers::log2e;
  return static_cast<T>(std::isfinite(nats) ? std::clamp(bits, -kHighest, kHighest) : bits);
}

// What both passes add to scores in powers of two to divide their weights by exp(lse); the correction that Forward leaves is
// for weights that are divided by this. It is rounded once more than lse. -inf for a row without weights.
template <class T>
T MinusInPowersOfTwo(T lse) {
  return lse == -std::numeric_limits<T>::infinity() ? lse : static_cast<T>(static_cast<double>(lse) * -std::numbers::log2e);
}

}  // namespace heed

#endif  // HEED_LOG_SUM_EXP_H_
