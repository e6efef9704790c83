// Heads side by side in the width, and as a dimension of their own.
#ifndef HEED_NN_SRC_HEADS_H_
#define HEED_NN_SRC_HEADS_H_

#include <cstdint>

#include <ATen/ATen.h>

namespace heed::nn {

// [batch, steps, heads * width] -> [batch, heads, steps, width] without a copy.
inline at::Tensor SplitHeads(const at::Tensor& X, int64_t heads) {
  return X.view({X.size(0), X.size(1), heads, X.size(2) / heads}).transpose(1, 2);
}

// The inverse; also without a copy where the memory is ordered as a projection leaves it, which attention keeps.
inline at::Tensor MergeHeads(const at::Tensor& X) { return X.transpose(1, 2).flatten(2); }

}  // namespace heed::nn

#endif  // HEED_NN_SRC_HEADS_H_
