// Queries and keys turned where they lie, by where they stand in the whole sequence.
#ifndef HEED_NN_SRC_DISTRIBUTED_ROTATION_H_
#define HEED_NN_SRC_DISTRIBUTED_ROTATION_H_

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "distributed/exchange.h"
#include "distributed/parts.h"
#include "heed/nn/attention_position.h"
#include "token_positions.h"

namespace heed::nn::distributed {

struct Turned {
  at::Tensor query, key;
  int64_t trained = 0;  // numbers in the scheme's parameters that the rotation depends on
  std::string sample;   // what becomes of one query and key, where that depends on nothing that is trained
};

// What a scheme that rotates makes of this rank's queries and keys. places: of all tokens. Gradients of parameters that the
// rotation depends on are summed over ranks.
Turned TurnedByScheme(const Exchange& exchange, std::shared_ptr<const AttentionPosition> scheme, const at::Tensor& query,
                      const at::Tensor& key, const CallPositions& places, const Parts& queries, const Parts& keys);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_ROTATION_H_
