// The layers around attention, for inference on plain memory: rows of numbers in, rows out. Load their weights by name
// (heed/weights.h) first. Several threads may use a layer at once. All throw InvalidArgument, naming the argument and both
// shapes, before they write anything, also where weights were not loaded.
#ifndef HEED_LAYERS_H_
#define HEED_LAYERS_H_

#include <cstdint>
#include <vector>

#include "heed/executor.h"
#include "heed/model_workspace.h"
#include "heed/packed_matrix.h"
#include "heed/view.h"
#include "heed/weights.h"

namespace heed {

// y = W x + b for every row. Parameters weight [out, in] and, with bias, bias [out].
class Linear {
 public:
  Linear(int64_t in, int64_t out, bool bias = true);
  Parameters parameters();

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }
  // x [rows, in] -> y [rows, out], any strides; y must not overlap x.
  void Forward(View<const float, 2> x, View<float, 2> y, Executor& executor) const;
  // x [batch, steps, in] -> y [batch, steps, out].
  void Forward(View<const float, 3> x, View<float, 3> y, Executor& executor) const;

 private:
  void CheckLoaded() const;

  int64_t in_, out_;
  bool has_bias_;
  PackedMatrix weight_;
  std::vector<float> bias_;
};

// (x - mean) / sqrt(variance + eps) * weight + bias over each row; parameters weight [width] and bias [width]. eps: 1e-5
// PyTorch, MXNet, Paddle; 1e-3 TensorFlow; 1e-6 Flax.
class LayerNorm {
 public:
  explicit LayerNorm(int64_t width, double eps = 1e-5);
  Parameters parameters();
  // x, y [rows, width], any strides; y is x itself or does not overlap it.
  void Forward(View<const float, 2> x, View<float, 2> y) const;

 private:
  int64_t width_;
  double eps_;
  std::vector<float> weight_, bias_;
};

// A row of numbers for each token; parameter weight [tokens, width].
class Embedding {
 public:
  Embedding(int64_t tokens, int64_t width);
  Parameters parameters();
  // y[r, :] = scale * weight[tokens[r], :], y [rows, width]. Throws InvalidArgument for tokens outside 0..tokens-1.
  void Forward(View<const int32_t, 1> tokens, float scale, View<float, 2> y) const;
  // The weight, [tokens, width]; absent before loading.
  View<const float, 2> weight() const;

 private:
  int64_t tokens_, width_;
  std::vector<float> weight_;
};

enum class Activation { kRelu, kGelu, kGeluTanh };  // kGelu: x * Phi(x), exact; kGeluTanh: GPT-2's approximation by tanh

float Activate(float x, Activation activation);

// dense2(activation(dense1(x))), both with bias; parameters dense1.weight [hiddens, input_width], dense1.bias, dense2.weight
// [width, hiddens], dense2.bias.
class PositionWiseFFN {
 public:
  // input_width: of x; 0: width.
  PositionWiseFFN(int64_t width, int64_t hiddens, Activation activation, int64_t input_width = 0);
  Parameters parameters();
  // x [rows, input_width] -> y [rows, width], any strides; y must not overlap x.
  void Forward(View<const float, 2> x, View<float, 2> y, ModelWorkspace& workspace, Executor& executor) const;
  void Forward(View<const float, 2> x, View<float, 2> y, Executor& executor) const;

 private:
  Linear dense1_, dense2_;
  Activation activation_;
};

}  // namespace heed

#endif  // HEED_LAYERS_H_
