#include "lab/training/timed_attention.h"

#include <cmath>

#include <ATen/ATen.h>

#include "heed/nn/attention.h"

namespace heed::lab {
namespace {

// [batch, steps, heads * width] -> [batch, heads, steps, width].
at::Tensor SplitHeads(const at::Tensor& X, int64_t heads) {
  return X.view({X.size(0), X.size(1), heads, X.size(2) / heads}).transpose(1, 2);
}

at::Tensor Attend(nn::MultiHeadAttentionImpl& module, const at::Tensor& X, const at::Tensor& times, const at::Tensor& lengths) {
  nn::AttentionOptions call;
  call.causal(module.options.causal()).key_lengths(lengths).position(module.position);
  if (times.defined()) call.query_positions(times).key_positions(times);
  const int64_t heads = module.options.num_heads();
  const at::Tensor output =
      nn::attention(SplitHeads(module.W_q(X), heads), SplitHeads(module.W_k(X), heads), SplitHeads(module.W_v(X), heads), call)
          .output;
  return module.W_o(output.transpose(1, 2).flatten(2));
}

// Columns 2i and 2i + 1: sine and cosine of time / 10000^(2i / width), in double until the end; an odd width ends with a sine.
at::Tensor SinusoidsAt(const at::Tensor& times, int64_t width) {
  const at::Tensor pairs = at::arange((width + 1) / 2, times.options());
  const at::Tensor angles = times.unsqueeze(2) * at::exp(pairs * (-2.0 * std::log(10000.0) / static_cast<double>(width)));
  return at::stack({angles.sin(), angles.cos()}, 3).flatten(2).narrow(2, 0, width).to(at::kFloat);
}

}  // namespace

bool TakesTimes(nn::PositionScheme scheme) {
  return scheme == nn::PositionScheme::kSinusoidal || scheme == nn::PositionScheme::kRotary ||
         scheme == nn::PositionScheme::kAlibi;
}

at::Tensor EncodeAt(nn::AttentionEncoderImpl& encoder, const at::Tensor& X, const at::Tensor& times,
                    const at::Tensor& valid_lens) {
  const nn::PositionScheme scheme = encoder.options.position().scheme;
  const bool inside = TakesTimes(scheme) && !nn::AddsToInput(scheme);
  at::Tensor Y = X;
  if (encoder.sinusoidal) Y = Y + SinusoidsAt(times, X.size(2));
  if (encoder.learned) Y = encoder.learned(Y);
  for (nn::TransformerEncoderBlock& block : encoder.blocks) {
    Y = block->addnorm1->Residual(block->options.norm(), Y, [&](const at::Tensor& input) {
      return Attend(*block->attention, input, inside ? times : at::Tensor(), valid_lens);
    });
    if (!block->ffn) continue;
    Y = block->addnorm2->Residual(block->options.norm(), Y, [&](const at::Tensor& input) { return block->ffn(input); });
  }
  return encoder.final_norm ? encoder.final_norm(Y) : Y;
}

}  // namespace heed::lab
