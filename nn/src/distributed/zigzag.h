// Tokens from one layout to another.
#ifndef HEED_NN_SRC_DISTRIBUTED_ZIGZAG_H_
#define HEED_NN_SRC_DISTRIBUTED_ZIGZAG_H_

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "distributed/exchange.h"
#include "heed/nn/distributed.h"

namespace heed::nn::distributed {

// zigzag (to: kZigzag) and unzigzag (to: kContiguous), which the exchange has the name of.
at::Tensor Moved(const Exchange& exchange, const at::Tensor& given, int64_t dim, Layout to);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_ZIGZAG_H_
