// Which method a call takes, and what it sends.
#ifndef HEED_NN_SRC_DISTRIBUTED_PLAN_H_
#define HEED_NN_SRC_DISTRIBUTED_PLAN_H_

#include <cstdint>

#include "distributed/call.h"
#include "heed/nn/distributed.h"

namespace heed::nn::distributed {

// operands: this rank's queries, keys and values, and the tables. rotation: how many numbers are trained that a rotation of
// queries and keys depends on. Throws InvalidArgument for a method that cannot be.
Plan PlanOf(const Call& call, Operands operands, int64_t rotation, Method method);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_PLAN_H_
