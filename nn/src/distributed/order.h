// Which keys a stretch of queries may look at, by order and lengths: what else need not be computed, nor sent.
#ifndef HEED_NN_SRC_DISTRIBUTED_ORDER_H_
#define HEED_NN_SRC_DISTRIBUTED_ORDER_H_

#include <cstdint>
#include <variant>

#include <ATen/core/Tensor.h>

#include "distributed/piece.h"
#include "heed/nn/attention.h"

namespace heed::nn::distributed {

// A sum of positions, each of which may be as large as numbers go.
using Distance = __int128;

// Which keys a query may look at, by the positions of both.
struct Bounds {
  bool causal = false;
  int64_t left = -1, right = -1;  // -1: no bound
};

// Of sequences whose tokens stand one after the other; query i stands at i, key j at j + first_offset.
struct Order {
  Bounds bounds;
  Distance first_offset = 0;
  int64_t prefix = 0;   // keys before it are seen by all
  Piece queries, keys;  // queries that look at anything, keys that are looked at

  // From the first to the last of some keys that any of some queries looks at.
  Piece KeysOf(Piece some_queries, Piece some_keys) const;
  // From the first to the last of some queries that look at any of some keys.
  Piece QueriesOf(Piece some_queries, Piece some_keys) const;
  // How many pairs of these queries and keys are seen.
  int64_t Pairs(Piece some_queries, Piece some_keys) const;
};

// Of sequences whose tokens stand as listed.
struct ListedOrder {
  Bounds bounds;
  at::Tensor query_places, key_places;  // [1 or B, N]
  Piece queries, keys;

  Piece KeysOf(Piece some_queries, Piece some_keys) const;
  Piece QueriesOf(Piece some_queries, Piece some_keys) const;
};

// The order of a call that is not of packed sequences. Its options' tensors are resolved.
std::variant<Order, ListedOrder> OrderOf(const AttentionOptions& options, int64_t q_len, int64_t kv_len);

// Where the first query stands, of a call that lists no positions of queries.
int64_t FirstQuery(const AttentionOptions& options, int64_t q_len, int64_t kv_len);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_ORDER_H_
