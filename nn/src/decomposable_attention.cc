#include "heed/nn/decomposable_attention.h"

#include <ATen/ATen.h>

#include "refuse.h"
#include "residual_layers.h"
#include "sequence.h"

namespace heed::nn {
namespace {

void CheckOptions(const DecomposableAttentionOptions& options) {
  if (options.width() < 1 || options.heads() < 1 || options.width() % options.heads() != 0) {
    Refuse("DecomposableAttention: width (", options.width(), ") must be a positive multiple of heads (", options.heads(), ")");
  }
  if (options.max_distance() < 0) {
    Refuse("DecomposableAttention: max_distance must be 0 or more, got ", options.max_distance());
  }
  CheckDropout("DecomposableAttention", options.dropout());
}

}  // namespace

DecomposableAttentionImpl::DecomposableAttentionImpl(DecomposableAttentionOptions options_) : options(options_) {
  CheckOptions(options);
  reset();
}

void DecomposableAttentionImpl::reset() {
  const int64_t width = options.width();
  attend = register_module("attend", PositionWiseFFN(width, width, options.activation()));
  position = register_module("position", RelativeBias(options.heads(), options.max_distance()));
  compare = register_module("compare", PositionWiseFFN(width, width, options.activation(), 2 * width));
}

torch::Tensor DecomposableAttentionImpl::forward(const torch::Tensor& X, const torch::Tensor& valid_lens,
                                                 KeyValueCache* cache) {
  CheckInput("DecomposableAttention", X, options.width());
  const at::Tensor query = SplitHeads(attend(X), options.heads());
  at::Tensor key = query, value = SplitHeads(X, options.heads());
  const int64_t queries = StepsOfSequence(X.size(1)), steps = (cache != nullptr ? cache->length() : 0) + queries;
  const at::Tensor lengths = ClampValidLens(valid_lens, X.size(0), queries, steps);
  if (cache != nullptr) {
    RefuseSequencePart("DecomposableAttention", "a cache holds the keys of one process");
    cache->append(key, value);
    key = cache->keys();
    value = cache->values();
  }
  AttentionOptions call;
  call.scale(1.0).causal(options.causal()).key_lengths(lengths).position(position);
  if (is_training()) call.dropout(options.dropout());
  const at::Tensor aligned = MergeHeads(AttentionOverSequence(query, key, value, call).output);
  return compare(at::cat({X, aligned}, 2));
}

}  // namespace heed::nn
