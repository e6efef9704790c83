// From arguments that are the same on all ranks to what is computed.
#ifndef HEED_NN_SRC_DISTRIBUTED_PREPARED_CALL_H_
#define HEED_NN_SRC_DISTRIBUTED_PREPARED_CALL_H_

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "attention_call.h"
#include "distributed/call.h"
#include "heed/nn/distributed.h"

namespace heed::nn::distributed {

// What ranks have agreed on, and this rank's part: operands as a scheme has turned them, options of the whole without scheme.
struct Request {
  at::Tensor query, key, value;
  AttentionOptions options;
  Choice choice;
  std::vector<int64_t> query_lengths, key_lengths;  // of each rank
  bool returns_lse = true;
  int64_t rotation = 0;  // see PlanOf
};

struct PreparedCall {
  SharedCall call;
  Operands operands;
  Plan plan;
};

// Throws what heed::nn::attention throws, and InvalidArgument for lengths that do not fit the layout and a method that cannot
// be; the same on all ranks, before anything is sent.
PreparedCall Prepared(const Exchange& exchange, Request request);

AttentionOutput Computed(const PreparedCall& prepared);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_PREPARED_CALL_H_
