#include "lab/training/timed_attention.h"

#include <ATen/ATen.h>

#include "heed/nn/multi_head_attention.h"
#include "heed/scheme_formulas.h"

namespace heed::lab {

at::Tensor EncodeAt(nn::AttentionEncoderImpl& encoder, const at::Tensor& X, const at::Tensor& times,
                    const at::Tensor& valid_lens) {
  const nn::PositionScheme scheme = encoder.options.position().scheme;
  const bool inside = TakesTimes(nn::ToString(scheme)) && !nn::AddsToInput(scheme);
  at::Tensor padding;
  if (valid_lens.defined()) padding = at::arange(X.size(1), valid_lens.options()).ge(valid_lens.unsqueeze(1)).unsqueeze(2);
  const auto blank = [&](const at::Tensor& some) { return padding.defined() ? some.masked_fill(padding, 0.0) : some; };
  at::Tensor Y = blank(X);
  if (encoder.sinusoidal) Y = encoder.sinusoidal(Y, 0, times);
  if (encoder.learned) Y = encoder.learned(Y);
  const nn::StepPositions positions = inside ? nn::StepPositions{times, times} : nn::StepPositions{};
  for (nn::TransformerEncoderBlock& block : encoder.blocks) Y = block(Y, valid_lens, nullptr, positions);
  return blank(encoder.final_norm ? encoder.final_norm(Y) : Y);
}

}  // namespace heed::lab
