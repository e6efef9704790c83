// Self-attention over steps that stand at given times instead of 0, 1, 2, ..
#ifndef HEED_LAB_TRAINING_TIMED_ATTENTION_H_
#define HEED_LAB_TRAINING_TIMED_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "heed/nn/encoders.h"

namespace heed::lab {

// The encoder's forward pass, with its own parameters, where step i of row b stands at times[b, i]: sinusoidal encodings and
// rotations are those of the times, and ALiBi's distances are differences of times; a causal encoder sees the steps whose time
// is not later. Schemes that do not take times (heed/scheme_formulas.h) are given the steps' numbers. X [batch, steps, width],
// times float64 [batch, steps], valid_lens undefined or int64 [batch] -> [batch, steps, width].
at::Tensor EncodeAt(nn::AttentionEncoderImpl& encoder, const at::Tensor& X, const at::Tensor& times,
                    const at::Tensor& valid_lens = {});

}  // namespace heed::lab

#endif  // HEED_LAB_TRAINING_TIMED_ATTENTION_H_
