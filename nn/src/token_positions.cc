#include "token_positions.h"

#include <string>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "heed/error.h"

namespace heed::nn {
namespace {

// The lengths [B] of sequences with these cumulative lengths, which end at `tokens`.
at::Tensor Counts(const char* name, const at::Tensor& starts, int64_t tokens) {
  if (!starts.defined()) throw InvalidArgument(std::string(name) + ": expected cumulative lengths of queries and of keys");
  at::Tensor counts = starts.diff();
  if (starts.numel() < 1 || starts[0].item<int64_t>() != 0 || counts.lt(0).any().item<bool>() ||
      starts[-1].item<int64_t>() != tokens) {
    throw InvalidArgument(std::string(name) + ": expected ascending cumulative lengths from 0 to the " +
                          std::to_string(tokens) + " tokens");
  }
  return counts;
}

// Positions [T] of tokens that lie end to end; each sequence counts up from its first position, or reads its row of a list
// [1 or B, longest].
at::Tensor Spread(const char* name, const at::Tensor& starts, const at::Tensor& counts, const at::Tensor& first,
                  const at::Tensor& list) {
  const at::Tensor sequence = at::repeat_interleave(counts);
  const at::Tensor token = at::arange(sequence.size(0), at::kLong) - starts.index_select(0, sequence);
  if (!list.defined()) return token + first.index_select(0, sequence);
  const int64_t longest = counts.numel() == 0 ? 0 : counts.max().item<int64_t>();
  if ((list.size(0) != 1 && list.size(0) != counts.size(0)) || list.size(1) != longest) {
    throw InvalidArgument(std::string(name) + ": expected [1 or " + std::to_string(counts.size(0)) + ", " +
                          std::to_string(longest) + "] for the packed sequences, got " + ShapeText(list));
  }
  return list.expand({counts.size(0), -1}).index({sequence, token});
}

CallPositions PackedPositions(const AttentionOptions& options, int64_t q_len, int64_t kv_len) {
  const AttentionTensors& tensors = options.tensors();
  const at::Tensor queries = Counts("packed_queries", tensors.packed_queries, q_len);
  const at::Tensor keys = Counts("packed_keys", tensors.packed_keys, kv_len);
  if (queries.size(0) != keys.size(0)) {
    throw InvalidArgument("packed_keys: expected as many sequences as packed_queries has, " + std::to_string(queries.size(0)) +
                          ", got " + std::to_string(keys.size(0)));
  }
  const at::Tensor first_key = at::full_like(keys, options.key_offset().value_or(0));
  at::Tensor first_query = at::full_like(queries, options.query_offset().value_or(0));
  if (!options.query_offset() && options.causal() == Causal::kBottomRight) first_query = first_key + keys - queries;
  return {Spread("query_positions", tensors.packed_queries, queries, first_query, tensors.query_positions),
          Spread("key_positions", tensors.packed_keys, keys, first_key, tensors.key_positions)};
}

}  // namespace

CallPositions PositionsOf(const AttentionOptions& options, int64_t q_len, int64_t kv_len) {
  const AttentionTensors& tensors = options.tensors();
  if (tensors.packed_queries.defined() || tensors.packed_keys.defined()) return PackedPositions(options, q_len, kv_len);
  const int64_t first_key = options.key_offset().value_or(0);
  const int64_t aligned = options.causal() == Causal::kBottomRight ? first_key + kv_len - q_len : 0;
  CallPositions positions{options.query_offset().value_or(aligned), first_key};
  if (tensors.query_positions.defined()) positions.queries = tensors.query_positions;
  if (tensors.key_positions.defined()) positions.keys = tensors.key_positions;
  return positions;
}

}  // namespace heed::nn
