// Schemes that rotate queries and keys by their positions.
#ifndef HEED_NN_ROTATIONS_H_
#define HEED_NN_ROTATIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/attention_position.h"
#include "heed/nn/rotary.h"
#include "heed/rotary.h"

namespace heed::nn {

class KeptTables;

// Turns queries and keys so that their products depend on positions only by their offset. No parameters. See heed/rotary.h for
// the formulas and the scalings. Su et al. 2021, "RoFormer", section 3.2.
class RotaryImpl : public torch::nn::Cloneable<RotaryImpl>, public AttentionPosition {
 public:
  // options.rotary_dim 0: all columns of a head.
  explicit RotaryImpl(int64_t head_dim, RotaryOptions options = {}, RotaryLayout layout = RotaryLayout::kHalf);
  void reset() override {}
  bool rotates() const override { return true; }
  // Scalings that depend on the length take the largest of all positions + 1. Keys turned for a shorter text then do not fit a
  // longer one: cache them unturned.
  std::pair<at::Tensor, at::Tensor> rotate(const at::Tensor& query, const at::Tensor& key,
                                           const TokenPositions& query_positions,
                                           const TokenPositions& key_positions) const override;
  bool turns_once() const override { return fixed_.has_value(); }
  at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const override;
  at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const override;

 private:
  RotaryTables Tables(const at::Tensor& x, const TokenPositions& positions, std::optional<int64_t> last) const;
  at::Tensor Turned(const at::Tensor& x, const RotaryTables& tables) const;

  int64_t head_dim_;
  RotaryOptions options_;
  RotaryLayout layout_;
  std::optional<RotaryFrequencies> fixed_;  // absent if they depend on the length
  std::shared_ptr<KeptTables> kept_;        // shared by copies, whose frequencies are the same
};
TORCH_MODULE(Rotary);

// Rotary positions whose products fall with the distance, those of fast columns sooner: the term of column c is multiplied by
// zeta_c^((i - j) / scale_base), zeta_c = (2t + 0.4 head_dim) / (1.4 head_dim) of its pair t. Needs causality. The kernel uses
// differences of positions, so nothing overflows in long texts, and cached keys fit any later token. No parameters. Sun et al.
// 2023, "A Length-Extrapolatable Transformer", section 3.2.
class XPosImpl : public torch::nn::Cloneable<XPosImpl>, public AttentionPosition {
 public:
  explicit XPosImpl(int64_t head_dim, double base = 10000.0, double scale_base = 512.0,
                    RotaryLayout layout = RotaryLayout::kHalf);
  void reset() override {}
  AttentionTensors tensors() const override { return {.column_decay = column_decay_}; }
  bool turns_once() const override { return true; }
  at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const override;
  at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const override;

 private:
  Rotary rotary_;
  at::Tensor column_decay_;  // float64 [head_dim]
};
TORCH_MODULE(XPos);

// Rotary positions of several axes: the columns of a head are `axes` blocks, and block a turns by the position on axis a, as a
// Rotary of its width does. Always give positions [B, N, axes], int64 or float64. No parameters. Heo et al. 2024, "Rotary
// Position Embedding for Vision Transformer", section 3.2.
class AxialRotaryImpl : public torch::nn::Cloneable<AxialRotaryImpl>, public AttentionPosition {
 public:
  explicit AxialRotaryImpl(int64_t head_dim, int64_t axes = 2, double base = 10000.0,
                           RotaryLayout layout = RotaryLayout::kHalf);
  void reset() override {}
  int64_t axes() const override { return axes_; }
  bool turns_once() const override { return true; }
  at::Tensor rotate_query(const at::Tensor& query, const TokenPositions& positions) const override;
  at::Tensor rotate_key(const at::Tensor& key, const TokenPositions& positions) const override;

 private:
  at::Tensor Turned(const char* operand, const at::Tensor& x, const TokenPositions& positions) const;

  int64_t head_dim_, axes_;
  RotaryLayout layout_;
  RotaryFrequencies frequencies_;  // of a block
};
TORCH_MODULE(AxialRotary);

}  // namespace heed::nn

#endif  // HEED_NN_ROTATIONS_H_
