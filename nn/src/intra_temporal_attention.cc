#include "heed/nn/intra_temporal_attention.h"

#include <limits>

#include <ATen/ATen.h>

#include "attention_call.h"
#include "refuse.h"
#include "residual_layers.h"

namespace heed::nn {

IntraTemporalAttentionImpl::IntraTemporalAttentionImpl(int64_t query_size_, int64_t memory_size_)
    : query_size(query_size_), memory_size(memory_size_) {
  if (query_size < 1 || memory_size < 1) {
    Refuse("IntraTemporalAttention: expected sizes of at least 1, got ", query_size, " and ", memory_size);
  }
  reset();
}

void IntraTemporalAttentionImpl::reset() {
  attend = register_module("attend", torch::nn::Linear(torch::nn::LinearOptions(memory_size, query_size).bias(false)));
}

std::pair<torch::Tensor, torch::Tensor> IntraTemporalAttentionImpl::forward(const torch::Tensor& queries,
                                                                            const torch::Tensor& memory,
                                                                            const torch::Tensor& valid_lens,
                                                                            const torch::Tensor& past) {
  CheckInput("IntraTemporalAttention, queries", queries, query_size);
  CheckInput("IntraTemporalAttention, memory", memory, memory_size);
  const int64_t batch = memory.size(0), n = memory.size(1), steps = queries.size(1);
  if (queries.size(0) != batch) {
    Refuse("IntraTemporalAttention: memory: expected a batch of ", queries.size(0), ", got ", batch);
  }
  if (past.defined() && past.sizes() != at::IntArrayRef({batch, n})) {
    Refuse("IntraTemporalAttention: past: expected shape [", batch, ", ", n, "], got ", ShapeText(past));
  }
  const at::Tensor padding = Padding(ClampValidLens(valid_lens, batch, -1, n), n), source = Blank(memory, padding);
  const at::Tensor scores = queries.matmul(attend(source).transpose(1, 2));
  // Of what came before each step; before the first there is nothing to divide by.
  const at::Tensor first = past.defined() ? past.unsqueeze(1) : scores.new_zeros({batch, 1, n});
  const at::Tensor sums =
      past.defined() ? at::cat({first, scores}, 1).logcumsumexp(1) : at::cat({first, scores.logcumsumexp(1)}, 1);
  at::Tensor logits = scores - sums.narrow(1, 0, steps);
  if (padding.defined()) {  // a row without a step weighs zeros
    const at::Tensor hidden = padding.transpose(1, 2).logical_and(padding.all(1, /*keepdim=*/true).logical_not());
    logits = logits.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }
  return {logits.softmax(2).matmul(source), sums.select(1, steps)};
}

}  // namespace heed::nn
