// The matrix of weights, for those who ask for it: plain tensor operations over [B, Hq, Nq, Nk].
#include <cmath>

#include <ATen/ATen.h>

#include "attention_call.h"

namespace heed::nn {
namespace {

int64_t QueryOffset(const AttentionOptions& options, int64_t q_len, int64_t kv_len) {
  if (options.query_offset()) return *options.query_offset();
  return options.causal() == Causal::kBottomRight ? options.key_offset().value_or(0) + kv_len - q_len : 0;
}

// key position - query position, [Nq, Nk]
at::Tensor Offsets(const AttentionOptions& options, int64_t q_len, int64_t kv_len) {
  const at::Tensor query = at::arange(q_len, at::kLong) + QueryOffset(options, q_len, kv_len);
  const at::Tensor key = at::arange(kv_len, at::kLong) + options.key_offset().value_or(0);
  return key.unsqueeze(0) - query.unsqueeze(1);
}

// Which keys each query may look at, broadcastable to [B, Hq, Nq, Nk]; undefined where all.
at::Tensor Allowed(const AttentionOptions& options, const at::Tensor& offsets, int64_t kv_len) {
  at::Tensor allowed;
  if (options.causal() != Causal::kNone) allowed = offsets.le(0);
  if (options.key_lengths().defined()) {
    at::Tensor lengths = options.key_lengths();
    if (lengths.dim() == 1) lengths = lengths.unsqueeze(1);
    const at::Tensor in_length = at::arange(kv_len, at::kLong).lt(lengths.unsqueeze(-1)).unsqueeze(1);
    allowed = allowed.defined() ? allowed.logical_and(in_length) : in_length;
  }
  return allowed;
}

}  // namespace

at::Tensor AttentionWeights(const at::Tensor& query, const at::Tensor& key, const at::Tensor& lse,
                            const AttentionOptions& options) {
  const int64_t batch = query.size(0), q_heads = query.size(1), q_len = query.size(2), head_dim = query.size(3);
  const int64_t kv_heads = key.size(1), kv_len = key.size(2);
  const double scale = options.scale().value_or(1.0 / std::sqrt(static_cast<double>(head_dim)));

  const int64_t group = kv_heads == 0 ? 0 : q_heads / kv_heads;
  const at::Tensor grouped = query.reshape({batch, kv_heads, group, q_len, head_dim}) * scale;
  at::Tensor weights = grouped.matmul(key.unsqueeze(2).transpose(-2, -1)).reshape({batch, q_heads, q_len, kv_len});

  const at::Tensor offsets = Offsets(options, q_len, kv_len);
  if (options.relative_bias().defined()) {
    const int64_t max_distance = (options.relative_bias().size(1) - 1) / 2;
    const at::Tensor entry = (offsets.clamp(-max_distance, max_distance) + max_distance).reshape({-1});
    weights.add_(options.relative_bias().index_select(1, entry).reshape({q_heads, q_len, kv_len}));
  }
  weights.sub_(lse.unsqueeze(-1)).exp_();
  const at::Tensor allowed = Allowed(options, offsets, kv_len);
  if (allowed.defined()) {
    weights.masked_fill_(allowed.logical_not(), 0.0);
    if (options.empty_row() == EmptyRow::kUniform) {
      weights.masked_fill_(allowed.any(-1, /*keepdim=*/true).logical_not(), 1.0 / static_cast<double>(kv_len));
    }
  }
  if (options.query_lengths().defined()) {
    const at::Tensor padded = at::arange(q_len, at::kLong).ge(options.query_lengths().unsqueeze(1));
    weights.masked_fill_(padded.unsqueeze(1).unsqueeze(-1), 0.0);
  }
  return weights;
}

}  // namespace heed::nn
