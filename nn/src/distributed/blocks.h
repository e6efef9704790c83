// A call cut into blocks, each some queries and some keys of the same sequences, which are computed by themselves; and which
// keys a stretch of queries may look at, by order and lengths: what else need not be computed, nor sent.
#ifndef HEED_NN_SRC_DISTRIBUTED_BLOCKS_H_
#define HEED_NN_SRC_DISTRIBUTED_BLOCKS_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distributed/parts.h"
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

// Queries and keys as they are counted in their sequences, and where the first of each stands among all tokens.
struct Block {
  Piece rows;  // batch rows, or packed sequences
  Piece queries, keys;
  int64_t first_query = 0, first_key = 0;
  bool whole = false;  // of packed sequences all of them, one after the other: queries and keys are then tokens

  // Among all tokens.
  Piece AllQueries() const { return {first_query, first_query + queries.length()}; }
  Piece AllKeys() const { return {first_key, first_key + keys.length()}; }
};

// A call as one process would compute it: its options, and the tokens of all ranks.
class Whole {
 public:
  // The options' tensors are resolved and require no gradient.
  Whole(AttentionOptions options, int64_t batch, int64_t q_len, int64_t kv_len);

  const AttentionOptions& options() const { return options_; }
  // Where it is that of numbers alone.
  const Order* order() const { return order_ ? std::get_if<Order>(&*order_) : nullptr; }

  // What there is to compute of these tokens, the same whoever asks.
  std::vector<Block> Blocks(Piece queries, Piece keys) const;
  // From the first to the last of some keys that some queries need.
  Piece Needed(Piece queries, Piece keys) const;
  // The options of a block.
  AttentionOptions OptionsOf(const Block& block) const;
  // What a block reads of the bias or of its gradient, as a view.
  at::Tensor BiasOf(const at::Tensor& bias, const Block& block) const;

 private:
  struct Lengths {
    int64_t queries, keys;
  };
  std::vector<Block> PackedBlocks(Piece queries, Piece keys) const;
  AttentionOptions OfRows(Piece rows) const;
  Lengths LengthsOf(const Block& block) const;
  Block Longest(Piece rows) const;
  void AddOffsets(Piece rows, AttentionOptions& options) const;
  void Cut(const Block& block, AttentionOptions& options) const;

  AttentionOptions options_;
  int64_t batch_;
  Lengths lengths_;
  std::vector<int64_t> query_offsets_, key_offsets_;  // of packed sequences
  std::optional<std::variant<Order, ListedOrder>> order_;
};

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_BLOCKS_H_
