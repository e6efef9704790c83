#include "heed/nn/attention.h"

#include <tuple>
#include <utility>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "heed/nn/attention_position.h"
#include "heed/nn/dropout.h"
#include "operator_node.h"
#include "refuse.h"
#include "token_positions.h"

namespace heed::nn {

int64_t FirstRowOfDropout(const AttentionOptions& options) {
  int64_t offset = 0;
  if (__builtin_add_overflow(options.batch_offset(), first_batch_row(), &offset)) {
    Refuse("batch_offset: ", options.batch_offset(), " leaves no room for FirstBatchRow's ", first_batch_row());
  }
  return offset;
}

AttentionOutput attention(const at::Tensor& query_view, const at::Tensor& key_view, const at::Tensor& value_view,
                          const AttentionOptions& options) {
  at::Tensor query = Dense("query", query_view), key = Dense("key", key_view);
  const at::Tensor value = Dense("value", value_view);
  CheckAttentionInputs(query, key, value);
  const at::Tensor heads = DenseIndices("heads", options.weights_of_heads()),
                   rows = DenseIndices("rows", options.weights_of_rows());
  const AttentionPosition* scheme = options.position().get();
  AttentionOptions resolved = options;
  const AxesPositions on_axes = TakeAxes(resolved);
  if (scheme) resolved = WithScheme(*scheme, std::move(resolved), query);
  resolved.position(nullptr);
  resolved.tensors() = Resolved(resolved.tensors(), query);
  if (scheme && scheme->rotates()) {
    const CallPositions positions = PositionsOf(resolved, query.size(2), key.size(2), on_axes);
    std::tie(query, key) = scheme->rotate(query, key, positions.queries, positions.keys);
  }
  if (scheme && scheme->places()) PlaceTokens(*scheme, on_axes, query.size(2), key.size(2), resolved);
  if (options.dropout() != 0.0) {
    if (!options.seed()) resolved.seed(DrawSeed());
    resolved.batch_offset(FirstRowOfDropout(options));
  }

  const ForwardResult forward = DifferentiableAttention(query, key, value, resolved);

  AttentionOutput result{forward.output, forward.lse, {}, forward.statistics};
  if (options.return_weights()) {
    RefuseTangents("return_weights", {result.output});
    const at::NoGradGuard no_grad;
    result.weights = AttentionWeights(query, key, result.lse.detach(), resolved, heads, rows);
  }
  return result;
}

}  // namespace heed::nn
