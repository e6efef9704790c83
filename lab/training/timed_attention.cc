#include "lab/training/timed_attention.h"

#include <cmath>

#include <ATen/ATen.h>

#include "heed/nn/multi_head_attention.h"

namespace heed::lab {
namespace {

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
  if (valid_lens.defined()) {
    const at::Tensor padding = at::arange(X.size(1), valid_lens.options()).ge(valid_lens.unsqueeze(1)).unsqueeze(2);
    Y = X.masked_fill(padding, 0.0);
  }
  if (encoder.sinusoidal) Y = Y + SinusoidsAt(times, X.size(2));
  if (encoder.learned) Y = encoder.learned(Y);
  const nn::StepPositions positions = inside ? nn::StepPositions{times, times} : nn::StepPositions{};
  for (nn::TransformerEncoderBlock& block : encoder.blocks) Y = block(Y, valid_lens, nullptr, positions);
  return encoder.final_norm ? encoder.final_norm(Y) : Y;
}

}  // namespace heed::lab
