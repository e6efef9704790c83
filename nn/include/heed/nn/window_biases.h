// Biases of tokens in a window of two axes.
#ifndef HEED_NN_WINDOW_BIASES_H_
#define HEED_NN_WINDOW_BIASES_H_

#include <cstdint>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include "heed/nn/attention_position.h"

namespace heed::nn {

// A window of tokens, such as the patches of a part of an image.
struct WindowShape {
  int64_t height = 0, width = 0;

  WindowShape() = default;
  WindowShape(int64_t side) : WindowShape(side, side) {}  // NOLINT(google-explicit-constructor): a square by its side
  WindowShape(int64_t height_, int64_t width_) : height(height_), width(width_) {}
};

// The base of both biases: places of tokens, and a table by the difference of two places. Positions are whole numbers within
// the window, [B, N, 2] (row, column); without them, and where they have one number each, token n stands in row n / width,
// column n % width.
class WindowPosition : public AttentionPosition {
 public:
  int64_t axes() const override { return 2; }
  bool places() const override { return true; }
  // The place of row y and column x is y * (2 * width - 1) + x; the difference of two places determines both differences.
  TokenPositions place(const TokenPositions& positions, int64_t steps) const override;
  // relative_bias of table().
  AttentionTensors tensors() const override;
  // The bias by row and head, [(2 * height - 1) * (2 * width - 1), heads]: row (dy + height - 1) * (2 * width - 1) + dx + width
  // - 1 belongs to a query dy rows below and dx columns to the right of its key.
  virtual at::Tensor table() const = 0;
  const WindowShape& window() const { return window_; }

 protected:
  // Throws InvalidArgument that begins with the name.
  WindowPosition(const char* name, int64_t heads, WindowShape window);
  int64_t heads() const { return heads_; }
  int64_t offsets() const { return (2 * window_.height - 1) * (2 * window_.width - 1); }

 private:
  const char* name_;
  int64_t heads_;
  WindowShape window_;
};

// Adds one trainable number for each head and pair of differences; `weight` has the layout of Swin's
// relative_position_bias_table. Liu et al. 2021, "Swin Transformer", section 3.2.
class SwinBiasImpl : public torch::nn::Cloneable<SwinBiasImpl>, public WindowPosition {
 public:
  SwinBiasImpl(int64_t heads, WindowShape window);
  void reset() override;
  at::Tensor table() const override { return weight; }
  torch::Tensor weight;  // [(2 * height - 1) * (2 * width - 1), heads], normal with deviation 0.02 at first, cut off at 2
};
TORCH_MODULE(SwinBias);

// Adds 16 * sigmoid of a small network of the differences on a logarithmic scale, sign(x) log2(1 + 8 |x|) / 3, x a difference
// over the largest of the window, or of pretrained_window. Liu et al. 2022, "Swin Transformer V2", sections 3.2 and 3.3; use it
// with QueryKeyNorm's kL2, as the paper does.
class SwinV2BiasImpl : public torch::nn::Cloneable<SwinV2BiasImpl>, public WindowPosition {
 public:
  // pretrained_window: window of the training; 0 x 0: the window itself.
  SwinV2BiasImpl(int64_t heads, WindowShape window, int64_t hidden = 512, WindowShape pretrained_window = {});
  void reset() override;
  at::Tensor table() const override;
  bool computes_tables() const override { return true; }
  // As torch::nn::Linear starts.
  torch::Tensor first_weight;   // [hidden, 2], of rows and columns
  torch::Tensor first_bias;     // [hidden]
  torch::Tensor second_weight;  // [heads, hidden]

 private:
  int64_t hidden_;
  WindowShape pretrained_;
  at::Tensor differences_;  // float64 [(2 * height - 1) * (2 * width - 1), 2], on the logarithmic scale
};
TORCH_MODULE(SwinV2Bias);

}  // namespace heed::nn

#endif  // HEED_NN_WINDOW_BIASES_H_
