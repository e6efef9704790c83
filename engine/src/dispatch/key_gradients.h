// The gradients of scores of keys without values.
#ifndef HEED_DISPATCH_KEY_GRADIENTS_H_
#define HEED_DISPATCH_KEY_GRADIENTS_H_

#include <cstdint>

#include "attention/problem.h"
#include "attention/valueless_key.h"

namespace heed::dispatch {

// With the weight p = exp(score - lse) of a row's key, p times -delta and what the log-sum-exp and statistics add
// (attention/statistic_terms-inl.h): it meets no value, and its distance is 0.
template <class T>
class KeyGradients final : public attention::ValuelessKeyGradients {
 public:
  explicit KeyGradients(const attention::BackwardProblem<T>& problem) : problem_(problem) {}

  int64_t rows() const override { return problem_.lse.extent[0]; }
  int64_t queries() const override { return problem_.lse.extent[2]; }
  double Of(int64_t array_row, int64_t head, int64_t query, double score) const override;

 private:
  const attention::BackwardProblem<T>& problem_;
};

}  // namespace heed::dispatch

#endif  // HEED_DISPATCH_KEY_GRADIENTS_H_
