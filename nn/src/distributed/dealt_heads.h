// How heads are dealt out to ranks.
#ifndef HEED_NN_SRC_DISTRIBUTED_DEALT_HEADS_H_
#define HEED_NN_SRC_DISTRIBUTED_DEALT_HEADS_H_

#include <cstdint>
#include <string>

#include <ATen/core/Tensor.h>

#include "distributed/parts.h"
#include "heed/nn/attention.h"

namespace heed::nn::distributed {

struct DealtHeads {
  int64_t q_heads = 0, kv_heads = 0, ranks = 1;

  // Why they cannot be; empty where they can.
  std::string Refusal() const;
  // The query heads of a rank.
  Piece Queries(int64_t rank) const;
  // The key heads that they read.
  Piece Keys(int64_t rank) const;
  // Whether a key head is read on several ranks.
  bool Shared() const;

 private:
  int64_t Group() const { return q_heads / (kv_heads > 0 ? kv_heads : 1); }
};

// What a table or an array over pairs, or its gradient, says of some query heads, as a view. member: its number among the
// tensors of the options.
at::Tensor OfHeads(std::size_t member, const at::Tensor& tensor, Piece heads);

// The options for some query heads.
AttentionOptions OptionsOfHeads(const AttentionOptions& options, Piece heads);

}  // namespace heed::nn::distributed

#endif  // HEED_NN_SRC_DISTRIBUTED_DEALT_HEADS_H_
