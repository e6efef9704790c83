// A call cut into blocks, each some queries and some keys of the same sequences, which are computed by themselves.
#ifndef HEED_NN_SRC_DISTRIBUTED_BLOCKS_H_
#define HEED_NN_SRC_DISTRIBUTED_BLOCKS_H_

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "distributed/order.h"
#include "distributed/piece.h"
#include "heed/nn/attention.h"

namespace heed::nn::distributed {

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
