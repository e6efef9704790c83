#include "heed/nn/structured_attention.h"

#include <limits>

#include <ATen/ATen.h>

#include "refuse.h"
#include "residual_layers.h"
#include "sequence.h"

namespace heed::nn {

StructuredAttentionImpl::StructuredAttentionImpl(StructuredAttentionOptions options_) : options(options_) {
  if (options.hidden() == 0) options.hidden(options.width());
  if (options.width() < 1 || options.rows() < 1 || options.hidden() < 1) {
    Refuse("StructuredAttention: expected a width, rows and hidden of at least 1, got ", options.width(), ", ", options.rows(),
           " and ", options.hidden());
  }
  CheckDropout("StructuredAttention", options.dropout());
  reset();
}

void StructuredAttentionImpl::reset() {
  using torch::nn::LinearOptions;
  W_s1 = register_module("W_s1", torch::nn::Linear(LinearOptions(options.width(), options.hidden()).bias(false)));
  W_s2 = register_module("W_s2", torch::nn::Linear(LinearOptions(options.hidden(), options.rows()).bias(false)));
}

torch::Tensor StructuredAttentionImpl::forward(const torch::Tensor& H, const torch::Tensor& valid_lens) {
  CheckInput("StructuredAttention", H, options.width());
  RefuseSequencePart("StructuredAttention", "a row of weights has those of all steps, which other ranks may have");
  const int64_t batch = H.size(0), steps = H.size(1);
  const at::Tensor lengths = ClampValidLens(valid_lens, batch, -1, steps), states = Blank(H, Padding(lengths, steps));
  const at::Tensor hidden = W_s1(states).tanh(), key = hidden.unsqueeze(1), value = states.unsqueeze(1);
  const auto queries = [&](int64_t count) {
    return W_s2->weight.view({1, options.rows(), 1, options.hidden()}).expand({batch, options.rows(), count, options.hidden()});
  };
  AttentionOptions call;
  call.scale(1.0).causal(options.causal() ? Causal::kBottomRight : Causal::kNone).key_lengths(lengths);
  if (observer) observer(queries(steps), key, value, call);
  if (is_training()) {
    call.dropout(options.dropout());
    scores_ = W_s2(hidden).transpose(1, 2);
    lengths_ = lengths;
  }
  return MergeHeads(attention(queries(options.causal() ? steps : 1), key, value, call).output);
}

torch::Tensor StructuredAttentionImpl::penalty() const {
  if (!scores_.defined()) return {};
  const int64_t steps = scores_.size(2);
  const at::Tensor place = at::arange(steps, scores_.options().dtype(at::kLong));
  const at::Tensor lengths = lengths_.defined() ? lengths_ : at::full({scores_.size(0)}, steps, place.options());
  at::Tensor products, counted;  // A A^T of each embedding [batch, embeddings, rows, rows], and whether it has a step
  if (options.causal()) {
    const at::Tensor pairs = (scores_.unsqueeze(2) + scores_.unsqueeze(1)).logcumsumexp(3), all = scores_.logcumsumexp(2);
    products = (pairs - all.unsqueeze(2) - all.unsqueeze(1)).exp().permute({0, 3, 1, 2});
    counted = place.lt(lengths.unsqueeze(1));
  } else {
    // What has no step counts for nothing, so that it may look at one.
    const at::Tensor hidden = place.ge(lengths.clamp_min(1).view({-1, 1, 1}));
    const at::Tensor weights = scores_.masked_fill(hidden, -std::numeric_limits<double>::infinity()).softmax(2);
    products = weights.matmul(weights.transpose(1, 2)).unsqueeze(1);
    counted = lengths.gt(0).unsqueeze(1);
  }
  const at::Tensor each = (products - at::eye(options.rows(), scores_.options())).square().sum(at::IntArrayRef{2, 3});
  return (each * counted).sum() / counted.sum().clamp_min(1);
}

torch::Tensor AnnotationPenalty(const torch::nn::Module& module) {
  at::Tensor sum;
  for (const auto& part : module.modules()) {
    const auto* layer = part->as<StructuredAttentionImpl>();
    const at::Tensor own = layer == nullptr ? at::Tensor() : layer->penalty();
    if (own.defined()) sum = sum.defined() ? sum + own : own;
  }
  return sum;
}

}  // namespace heed::nn
