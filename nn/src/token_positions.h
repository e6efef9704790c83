// Where the tokens of a call stand, for schemes that turn queries and keys by their positions.
#ifndef HEED_NN_SRC_TOKEN_POSITIONS_H_
#define HEED_NN_SRC_TOKEN_POSITIONS_H_

#include <cstdint>

#include "heed/nn/attention.h"
#include "heed/nn/positions.h"

namespace heed::nn {

struct CallPositions {
  TokenPositions queries, keys;
};

// Of a call with q_len queries and kv_len keys, as the options list, offset, align or pack them. The options' tensors are
// resolved. Throws InvalidArgument where packed sequences or their lists do not fit the tokens.
CallPositions PositionsOf(const AttentionOptions& options, int64_t q_len, int64_t kv_len);

}  // namespace heed::nn

#endif  // HEED_NN_SRC_TOKEN_POSITIONS_H_
