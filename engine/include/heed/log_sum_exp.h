// A log-sum-exp as the kernels take it.
#ifndef HEED_LOG_SUM_EXP_H_
#define HEED_LOG_SUM_EXP_H_

#include <limits>
#include <numbers>

namespace heed {

// What both passes add to scores in powers of two to divide their weights by exp(lse); the correction that Forward leaves is
// for weights that are divided by this. It is rounded once more than lse. -inf for a row without weights.
template <class T>
T MinusInPowersOfTwo(T lse) {
  return lse == -std::numeric_limits<T>::infinity() ? lse : static_cast<T>(static_cast<double>(lse) * -std::numbers::log2e);
}

}  // namespace heed

#endif  // HEED_LOG_SUM_EXP_H_
